"""The kinds of rbac.authorization.k8s.io, and the roles of every cluster."""
