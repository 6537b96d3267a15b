"""The group resource.k8s.io: devices that pods claim.

``v1`` has claims and devices, ``v1beta2`` rules that taint devices, ``v1alpha3``
requests for the status of pools.
"""
