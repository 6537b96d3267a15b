"""The kinds of the group internal.apiserver.k8s.io, one file each.

Kinds: ``storageversion``.
"""
