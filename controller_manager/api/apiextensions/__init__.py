"""The API group apiextensions.k8s.io, one module per version."""
