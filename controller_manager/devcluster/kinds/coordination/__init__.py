"""The kinds of the group coordination.k8s.io, one file each.

Kinds: ``lease``, ``leasecandidate``. Shared: ``strategies`` (of coordinated election).
"""
