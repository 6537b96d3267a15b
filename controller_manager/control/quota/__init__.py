"""The usage that quotas charge for objects.

The quota controller counts with these functions, and the development cluster admits
new objects with them. All functions are pure. Upstream: pkg/quota/v1 and
k8s.io/apiserver/pkg/quota/v1.

``evaluators`` has the evaluator of each resource, with the rules of ``pods``,
``pod_resources``, ``services``, ``volume_claims``, ``device_claims``,
``extended_claims`` (claims for the extended resources of a pod), and ``counts`` (all
other objects). ``scopes`` selects objects; ``amounts`` calculates with quantities;
``names`` has the names of limited resources.
"""
