"""The group networking.k8s.io."""
