"""The managers of an object's fields: managedFields and server-side apply.

Upstream: sigs.k8s.io/structured-merge-diff and apimachinery/pkg/util/managedfields.
"""
