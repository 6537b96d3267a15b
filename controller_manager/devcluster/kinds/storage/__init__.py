"""The kinds of the group storage.k8s.io, one file each."""
