"""The kinds of the group apiregistration.k8s.io, one file each.

Kinds: ``apiservice``. Shared: ``local_services`` (the server's own),
``group_priorities`` (their order).
"""
