"""The group custom.metrics.k8s.io: ``v1beta2``."""
