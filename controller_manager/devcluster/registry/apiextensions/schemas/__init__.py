"""Structural schemas, and the custom resources that they describe.

Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver/schema and validation, and
k8s.io/kube-openapi/pkg/validation. A schema is the JSON of a definition.
"""
