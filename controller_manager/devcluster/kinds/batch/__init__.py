"""The kinds of the group batch, one file each."""
