"""The group authorization.k8s.io: ``v1`` has subject access reviews."""
