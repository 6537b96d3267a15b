"""The kinds of the group resource.k8s.io, one file each.

Kinds: ``deviceclass``, ``devicetaintrule``, ``devicetaintrule_v1alpha3``,
``resourceclaim``, ``resourceclaimtemplate``, ``resourcepoolstatusrequest``,
``resourceslice``. Shared: ``claim_defaults`` (claims and templates),
``device_validation`` (names and taints).
"""
