"""The kinds of the group rbac.authorization.k8s.io, one file each.

Kinds: ``clusterrole``, ``clusterrolebinding``, ``role``, ``rolebinding``. Shared:
``authorizer`` (decides by roles), ``binding_index`` (bindings by subject), ``bindings``
(both kinds of bindings), ``rules`` (coverage of rules), ``validation`` (roles and
bindings), ``escalation`` (refused grants),
``bootstrap`` (roles of every cluster), ``reconciliation`` (completes them).
"""
