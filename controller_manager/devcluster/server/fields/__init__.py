"""Who owns which field of an object: managedFields and server-side apply.

A type (`field_type`) says how a value is merged; values are compared (`comparison`),
merged and pruned (`merging`) by it. A set of fields (`field_set`) has the form that
managedFields shows. `entries` are the managers of an object, and `field_manager` says
what a write makes of them. Upstream: sigs.k8s.io/structured-merge-diff and
apimachinery/pkg/util/managedfields.
"""
