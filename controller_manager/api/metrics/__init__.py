"""The group metrics.k8s.io."""
