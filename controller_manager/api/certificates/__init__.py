"""The group certificates.k8s.io."""
