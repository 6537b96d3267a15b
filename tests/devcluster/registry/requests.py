"""Requests about objects of a kind, straight to a server in memory."""

import re

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.kind import Kind
from controller_manager.devcluster.apiserver.negotiation import check_object
from controller_manager.devcluster.apiserver.updating import patched
from controller_manager.devcluster.scheme.statuses import Refusal
from tests.clusters import Cluster
from tests.devcluster.registry.minimal import minimal

_MERGE = "application/merge-patch+json"


def create(cluster: Cluster, name: str, change: JSON | None = None) -> JSON:
    """Create the minimal object of the kind `name`, changed by a merge patch."""
    kind = _kind(cluster, name)
    given = patched(minimal(kind), change or {}, _MERGE, kind)
    body, unknown = check_object(given, kind, kind.version)
    assert unknown == []
    namespace = "default" if kind.namespaced else ""
    return cluster.server.objects.create(kind, namespace, body).obj


def update(cluster: Cluster, obj: JSON, change: JSON, subresource: str = "") -> JSON:
    """Change an object by a merge patch; null removes a field."""
    kind = _kind(cluster, obj["kind"])
    changed = patched(obj, change, _MERGE, kind)
    body, unknown = check_object(changed, kind, kind.version)
    assert unknown == []
    metadata = obj["metadata"]
    body["metadata"].pop("resourceVersion")
    stored = cluster.server.objects.update(
        kind, metadata.get("namespace", ""), metadata["name"], body, subresource
    )
    return stored.obj


def _kind(cluster: Cluster, name: str) -> Kind:
    kinds = cluster.server.catalogue.all()
    return next(each for each in kinds if each.kind == name)


def causes(refusal: Refusal) -> list[str]:
    """Return the errors that a server finds in an object, each once."""
    assert refusal.code == 422, refusal
    listed = (refusal.details or {})["causes"]
    texts = [f"{each['field']}: {each['message']}" for each in listed]
    # The values of an object are in the test already, and may be long.
    return [re.sub(r"Invalid value: \{.+\}: ", "", text) for text in texts]
