"""The kinds of the group coordination.k8s.io, one file each."""
