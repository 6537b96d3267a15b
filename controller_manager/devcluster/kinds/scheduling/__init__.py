"""The kinds of the group scheduling.k8s.io, one file each.

Kinds: ``podgroup``, ``priorityclass``, ``workload``. Shared: ``policy`` (that of pod
groups).
"""
