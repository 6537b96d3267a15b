"""The kinds of flowcontrol.apiserver.k8s.io, and the objects of each cluster."""
