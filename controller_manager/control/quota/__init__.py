"""Quotas: what each object is charged for, and by which quotas.

The quota controller counts with these functions, and the development cluster admits
new objects with them. ``evaluators`` has one evaluator for each kind of object that is
charged for more than its existence; ``counts`` has one for all others. All functions
are pure. Upstream: pkg/quota/v1 and k8s.io/apiserver/pkg/quota/v1.
"""
