"""The kinds of the group networking.k8s.io, one file each.

Kinds: ``ingress``, ``ingressclass``, ``ipaddress``, ``networkpolicy``, ``servicecidr``.
Shared: ``default_cidr`` (the server's own ServiceCIDR), ``ingress_validation``
(ingresses), ``network_policy_validation`` (policies).
"""
