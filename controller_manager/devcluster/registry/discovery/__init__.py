"""The kinds of the group discovery.k8s.io, one file each.

Kinds: ``endpointslice``. Shared: ``endpointslice_validation`` (slices).
"""
