"""The managers of an object's fields: managedFields and server-side apply.

- ``field_type``: types that say how to merge a value; ``model_types`` makes
  those of built-in kinds.
- ``field_set``: sets of fields in the form of managedFields.
- ``comparison``: the differences of two values.
- ``checking``: errors in a configuration.
- ``merging`` and ``pruning``: add fields to an object and remove them.
- ``entries``: the managers of an object.
- ``field_manager``: updates the managers after a write; ``conflicts`` refuses it.
- ``last_applied``: the annotation of client-side apply.

Upstream: sigs.k8s.io/structured-merge-diff and apimachinery/pkg/util/managedfields.
"""
