"""The API server: routing, reading, writing, watching, discovery.

It names no kind. Its caller passes the kinds: a `Kind` has the facts, its `Strategy`
the behaviour. The parts of upstream's API server that are the same for all resources
(k8s.io/apiserver) work here for all kinds, also for kinds that a
CustomResourceDefinition adds while the server runs. docs/tour.md follows one POST
through these modules.

The packages, from the top down; each imports only packages below it, which an import
contract in pyproject.toml checks:

- ``genericapiserver``: from request to answer.
- ``handlers``: the verbs of HTTP (GET, POST, PUT, PATCH, DELETE).
- ``discovery``, ``openapi``, ``aggregation`` (APIs without storage); then ``probes``.
- ``watch``: answers that stay open.
- ``registry``: create, update and delete of stored objects.
- ``http``: paths, headers, bodies, and the forms of answers.
- ``rest``: a kind, its strategy, and admission.
- ``security``: users and permissions.
- ``fields``: managedFields and server-side apply.
- ``storage``: objects with versions and history.
- ``apimachinery``: names, metadata, patches and Status bodies, which know no kind.
"""
