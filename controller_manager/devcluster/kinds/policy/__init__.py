"""The kinds of the group policy, one file each."""
