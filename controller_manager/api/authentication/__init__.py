"""The group authentication.k8s.io."""
