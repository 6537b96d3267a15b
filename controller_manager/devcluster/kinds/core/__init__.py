"""The kinds of the core group, one file each.

Kinds: ``binding``, ``componentstatus``, ``configmap``, ``endpoints``, ``event``,
``limitrange``, ``namespace``, ``node``, ``persistentvolume``,
``persistentvolumeclaim``, ``pod``, ``podtemplate``, ``replicationcontroller``,
``resourcequota``, ``secret``, ``service``, ``serviceaccount``.

Shared:

- Pods: ``pod_binding`` and ``pod_eviction`` (subresources), ``pod_columns`` (the row),
  ``pod_qos``, ``pod_topology`` (labels from the node), ``pod_update_validation``.
- Services: ``service_allocation`` (addresses and node ports), ``service_ranges`` (free
  addresses), ``service_node_ports``, ``service_families``, ``service_fields`` (by
  type), ``service_update`` (kept and dropped fields), ``service_validation``,
  ``service_address_validation``, ``service_port_validation``, ``service_columns``.
- Tokens: ``account_tokens`` (of secrets), ``bootstrap_token``, ``bound_tokens`` (of
  TokenRequests), ``token_request``, ``token_discovery`` (keys and issuer).
- Volumes and claims: ``claim_validation``, ``volume_validation``, ``data_sources``,
  ``volume_columns``.
- Others: ``data_validation`` (config maps and secrets), ``endpoints_validation``,
  ``limitrange_validation``, ``resourcequota_validation``, ``node_ranges`` (pod CIDRs).
"""
