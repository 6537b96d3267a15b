"""The group coordination.k8s.io.

- ``v1``: leases
- ``v1beta1``: lease candidates
"""
