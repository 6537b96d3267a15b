"""Hints: which clients should use which endpoint.

``mode`` tells which hints a service asks for. ``traffic`` gives those of
``spec.trafficDistribution``, ``zones`` those of the annotation for topology mode: each
zone gets endpoints in proportion to its CPUs. ``allocation`` computes the shares,
``capacity`` the CPUs, ``topology`` remembers which services have such hints.
"""
