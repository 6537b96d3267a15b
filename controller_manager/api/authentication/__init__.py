"""The group authentication.k8s.io: ``v1`` has token reviews."""
