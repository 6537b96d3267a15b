"""The kinds of the group apps, one file each."""
