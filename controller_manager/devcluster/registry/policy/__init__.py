"""The kinds of the group policy, one file each.

Kinds: ``poddisruptionbudget``. Shared: ``disruptions`` (evictions of pods).
"""
