"""The API server: routing, reading, writing, watching, discovery.

It names no kind. Its caller passes the kinds: a `Kind` has the facts, its `Strategy`
the behaviour. The parts of upstream's API server that are the same for all resources
(k8s.io/apiserver) work here for all kinds, also for kinds that a
CustomResourceDefinition adds while the server runs. docs/tour.md follows one POST
through these modules.

- Requests: ``genericapiserver`` (from request to answer), ``routing`` (targets),
  ``request_info`` (attributes), ``query`` (parameters), ``deadlines``, ``dry_run``,
  ``negotiation`` and ``yaml_bodies`` (bodies), ``document`` (paths without resources),
  ``aggregation`` (APIs without storage), ``probes``, ``request_metrics``.
- Kinds: ``kind``, ``strategy``, ``catalogue`` (all kinds), ``call`` (POST that a
  strategy answers), ``conversion`` (versions), ``custom_schemas``.
- Reads: ``reading``, ``selection`` (selectors), ``continue_token`` (pages),
  ``watching``, ``event_form`` (events of a watch).
- Writes: ``writing``, ``objects`` (on stored objects), ``updates``, ``object_meta``,
  ``names``, ``preconditions``, ``deletion``, ``scale``, ``connections``,
  ``base64_data``.
- Patches: ``patch``, ``json_patch``, ``strategic_merge``, ``applying`` (server-side
  apply), ``fields`` (managedFields), ``field_owners`` (the manager of a request).
- Users: ``authentication``, ``authorization``, ``admission``, ``attempts`` (writes that
  wait for admission).
- Storage: ``storage``, ``ordered_objects`` (order of lists), ``storage_state``
  (snapshots), ``stored_form``.
- Answers: ``accepting`` (Accept header), ``responses``, ``rendering``, ``presenting``
  (YAML and indented JSON), ``tables``, ``statuses`` (refusals), ``go_json`` (errors of
  Go).
- Types: ``models`` and ``schema`` (of kubernetes_asyncio), ``discovery``, ``openapi``,
  ``openapi_schemas``, ``openapi_protobuf``.
"""
