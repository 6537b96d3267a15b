"""The usage that quotas charge for objects.

The quota controller counts with these functions, and the development cluster admits
new objects with them. All functions are pure. Upstream: pkg/quota/v1 and
k8s.io/apiserver/pkg/quota/v1.
"""
