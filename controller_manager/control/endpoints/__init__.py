"""The endpoints of services: their pods, addresses, ports and slices.

``selectors`` finds the services of a pod and the pods of a service, and handles changes
of pods; ``addresses`` and ``ports`` compute the addresses and ports of a pod in a
service; ``live`` reads an object that a cache may not show yet; ``trigger_time`` finds
the time of the change that a write is for; ``slices`` fills and writes endpoint slices;
``subsets`` makes the subsets of Endpoints, in the order that ``canonical`` computes.
Upstream: pkg/controller/util/endpoint and k8s.io/endpointslice.
"""
