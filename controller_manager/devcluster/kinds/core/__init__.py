"""The kinds of the core group, one file each."""
