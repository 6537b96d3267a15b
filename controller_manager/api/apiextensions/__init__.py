"""The group apiextensions.k8s.io: ``v1`` has custom resource definitions."""
