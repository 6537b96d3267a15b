"""The kinds of the core group: a file each, or a package for one with many parts.

Kinds: ``binding``, ``componentstatus``, ``configmap``, ``endpoints``, ``event``,
``limitrange``, ``namespace``, ``node``, ``persistentvolume``,
``persistentvolumeclaim``, ``pod``, ``podtemplate``, ``replicationcontroller``,
``resourcequota``, ``secret``, ``service``, ``serviceaccount``.

Shared:

- Volumes and claims: ``claim_validation``, ``volume_validation``, ``data_sources``,
  ``volume_columns``.
- Others: ``bootstrap_token``, ``data_validation`` (config maps and secrets),
  ``limitrange_validation``, ``resourcequota_validation``, ``node_ranges`` (pod CIDRs).
"""
