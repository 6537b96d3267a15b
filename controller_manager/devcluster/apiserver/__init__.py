"""The API server: routing, reading, writing, watching, discovery.

It names no kind. Its caller passes the kinds: a `Kind` has the facts, its `Strategy`
the behaviour. The parts of upstream's API server that are the same for all resources
(k8s.io/apiserver) work here for all kinds, also for kinds that a
CustomResourceDefinition adds while the server runs. docs/tour.md follows one POST
through these modules.

The packages, from the top down; each imports only packages below it, which an import
contract in pyproject.toml checks.
"""
