"""The group custom.metrics.k8s.io."""
