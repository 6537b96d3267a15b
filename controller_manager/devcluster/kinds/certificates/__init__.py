"""The kinds of the group certificates.k8s.io, one file each."""
