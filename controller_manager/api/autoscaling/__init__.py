"""The autoscaling group: ``v1`` (the scale) and ``v2`` (autoscalers)."""
