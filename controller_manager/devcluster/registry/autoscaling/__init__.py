"""The kinds of the group autoscaling: ``autoscaler``."""
