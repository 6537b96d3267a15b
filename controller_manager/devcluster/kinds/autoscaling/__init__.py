"""The kinds of the group autoscaling, one file each."""
