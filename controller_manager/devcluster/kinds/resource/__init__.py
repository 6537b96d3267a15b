"""The kinds of the group resource.k8s.io, one file each."""
