"""Controllers of the autoscaling group: ``podautoscaler``."""
