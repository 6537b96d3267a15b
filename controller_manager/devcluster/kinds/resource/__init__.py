"""The kinds of the group resource.k8s.io, one file each.

Kinds: ``deviceclass``, ``devicetaintrule``,
``resourceclaim``, ``resourceclaimtemplate``, ``resourcepoolstatusrequest``,
``resourceslice``. Shared: ``claim_defaults`` (claims and templates),
``device_validation`` (pools and taints).
"""
