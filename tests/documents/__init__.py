"""What the documents are checked for, and the pages of the controllers."""
