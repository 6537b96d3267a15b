"""The kinds of the group storagemigration.k8s.io, one file each.

Kinds: ``storageversionmigration``.
"""
