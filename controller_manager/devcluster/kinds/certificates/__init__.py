"""Kinds of the group certificates.k8s.io."""
