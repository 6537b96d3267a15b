"""The group external.metrics.k8s.io."""
