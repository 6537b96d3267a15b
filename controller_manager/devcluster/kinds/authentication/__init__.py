"""The kinds of the group authentication.k8s.io, one file each."""
