"""The kinds of the group certificates.k8s.io, one file each.

Kinds: ``certificatesigningrequest``, ``clustertrustbundle``, ``podcertificaterequest``.
Shared: ``signing_validation`` (requests).
"""
