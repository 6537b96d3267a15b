"""Structural schemas, and what they do to objects.

Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver/schema and validation, and
k8s.io/kube-openapi/pkg/validation. A schema is the JSON of a definition.
"""
