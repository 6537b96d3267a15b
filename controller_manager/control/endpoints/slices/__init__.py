"""Endpoint slices: the endpoints in each slice, and the writes of slices.

``indexes`` finds the slices of a service; ``identity`` compares endpoints; ``template``
has the metadata of the slices of an owner. ``packing`` puts endpoints into slices, and
``actions`` are the writes of a sync (both pure). ``tracker`` knows the controller's own
writes; ``apply`` sends the writes; ``metrics`` has the metrics that the slice
controllers share. Upstream: k8s.io/endpointslice.
"""
