"""The group rbac.authorization.k8s.io: ``v1`` has cluster roles."""
