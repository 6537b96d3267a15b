"""The kinds of the group events.k8s.io, one file each.

Kinds: ``event``.
"""
