"""Parts of the API that know no kind: names, metadata, patches, refusals.

Upstream: k8s.io/apimachinery.

- ``statuses``: the Status bodies with which the server refuses.
- ``names``: validation of names, labels and metadata; ``uids``: random uids.
- ``query`` (parameters), ``continue_token`` (pages of a list).
- ``json_patch`` and ``strategic_merge``: patches.
- ``yaml_bodies`` and ``go_json``: texts as Go reads them.
"""
