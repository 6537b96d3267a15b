"""The admission plugins of the API server: one file each.

A plugin changes or refuses the object of a write. ``plugins`` lists all plugins of
upstream with the defaults; ``building`` makes those that a server runs. Upstream:
plugin/pkg/admission and k8s.io/apiserver/pkg/admission/plugin.

- Plugins: ``always`` (AlwaysAdmit, AlwaysDeny, AlwaysPullImages), ``certificates``,
  ``claim_resize``, ``default_ingress_class``, ``default_storage_class``,
  ``default_toleration_seconds``, ``deny_service_external_ips``,
  ``extended_resource_toleration``, ``hard_anti_affinity``, ``job_validation``,
  ``limit_ranger``, ``namespace_exists``, ``namespace_lifecycle``, ``owner_references``,
  ``pod_security``, ``pod_topology_labels``, ``priority``, ``protection``,
  ``resource_quota``, ``runtime_class``, ``service_account``,
  ``taint_nodes_by_condition``.
- Configured by objects: ``dynamic`` makes ``webhooks`` and ``policies``; these share
  ``expressions``, ``match_conditions``, ``matching``, ``rounds`` (reinvocation) and
  ``versions``.
- Shared: ``changes`` (new objects), ``limit_constraints``, ``quota_checks``,
  ``token_volume``, ``tolerations``, ``writes`` (parts of a write).
"""
