"""Endpoint slices: what is in which slice, and writing them.

``index`` finds the slices of a service; ``identity`` tells which endpoints are the
same; ``template`` is what the slices of an owner have in common; ``packing`` puts
endpoints into slices (pure); ``changes`` are the writes of a sync (pure); ``tracker``
knows which changes of slices are this controller's own; ``writer`` sends them.
Upstream: k8s.io/endpointslice.
"""
