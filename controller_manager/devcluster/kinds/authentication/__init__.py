"""The kinds of the group authentication.k8s.io, one file each.

Kinds: ``selfsubjectreview``, ``tokenreview``. Shared: ``impersonation`` (the user that
headers name).
"""
