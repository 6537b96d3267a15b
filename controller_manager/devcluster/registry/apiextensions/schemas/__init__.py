"""Structural schemas: validation, defaults and pruning of custom resources.

Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver/schema and validation, and
k8s.io/kube-openapi/pkg/validation. A schema is the JSON of a definition.

- A schema itself: ``definition`` (its fields), ``structure`` (it is structural),
  ``defaults`` (its defaults), ``rule_definition`` (its CEL rules), ``rule_costs`` and
  ``rule_bounds`` (their estimated costs), ``keywords``.
- Objects: ``validation``, ``formats`` and ``list_types`` (parts of it), ``rules`` and
  ``rule_values`` (CEL), ``correlation`` (old values), ``results`` (causes), ``numbers``
  (as Go prints them).
- Changes of objects: ``defaulting``, ``pruning``, ``embedded`` (resources in fields),
  ``field_types`` (for merging).
"""
