"""The API server: routing, reading, writing, watching, discovery.

It names no kind. Its caller passes the kinds: a `Kind` has the facts, its `Strategy`
the behaviour. The parts of upstream's API server that are the same for all resources
(k8s.io/apiserver) work here for all kinds, also for kinds that a
CustomResourceDefinition adds while the server runs. docs/tour.md follows one POST
through these modules. pyproject.toml has their order; each imports only lower ones.

- Verbs: ``reading`` answers GET, ``writing`` POST and DELETE, ``updating`` the others.
- Requests and answers: ``request_info``, ``negotiation``, ``responses``.
- Objects: ``objects`` checks and admits their changes, ``store`` stores them.
- Fields: ``field_manager`` writes managedFields, with ``merging``, ``field_set`` and
  ``field_type`` (structured-merge-diff).
"""
