"""The kinds of the group flowcontrol.apiserver.k8s.io, and their objects at the start."""
