"""The kinds of the group rbac.authorization.k8s.io, one file each."""
