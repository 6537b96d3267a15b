"""Checks of the documents, and of the pages of the controllers."""
