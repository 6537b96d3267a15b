"""Which pods back a service, with which addresses and ports.

``membership`` finds the services of a pod and the pods of a service, and the changes
of pods that matter; ``addresses`` and ``ports`` tell what a pod adds to a service;
``live`` reads what a cache may not show yet; ``trigger_time`` dates the change that a
write is for; ``slices`` fills and writes endpoint slices; ``subsets`` are those of
Endpoints, in the order that ``canonical`` says. Upstream:
pkg/controller/util/endpoint and k8s.io/endpointslice.
"""
