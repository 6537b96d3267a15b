"""The kinds of the group flowcontrol.apiserver.k8s.io, one file each."""
