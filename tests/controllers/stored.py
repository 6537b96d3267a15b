"""Objects as an API server in memory has stored them."""

import json
from typing import Any, ClassVar

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.kind import Kind
from controller_manager.devcluster.apiserver.request_info import parse_deletion
from tests.clusters import Cluster


class Stored:
    """Reads and writes objects in "default" at once, beside the API server."""

    apis: ClassVar = ("v1", "batch/v1", "autoscaling/v2")
    """The API versions in which kinds are looked for."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def _kind(self, kind: str) -> Kind:
        found = (self.cluster.server.catalogue.of(api, kind) for api in self.apis)
        return next(filter(None, found))

    def all(self, kind: str) -> list[JSON]:
        """Return copies of all objects of a kind, by name."""
        stored = self.cluster.server.storage.collection(self._kind(kind).resource)
        objects: list[JSON] = json.loads(json.dumps([each.obj for each in stored]))
        return sorted(objects, key=lambda each: str(each["metadata"]["name"]))

    def find(self, kind: str, name: str) -> JSON | None:
        """Return a copy of an object, `None` if there is none."""
        found = (each for each in self.all(kind) if each["metadata"]["name"] == name)
        return next(found, None)

    def get(self, kind: str, name: str) -> JSON:
        """Return a copy of an object."""
        found = self.find(kind, name)
        assert found is not None
        return found

    def edit(self, kind: str, name: str, **spec: Any) -> None:
        """Change fields of the spec of an object."""
        found = self.get(kind, name)
        self.update(kind, {**found, "spec": {**found["spec"], **spec}})

    def set_status(self, kind: str, name: str, **status: Any) -> None:
        """Change fields of the status of an object."""
        found = self.get(kind, name)
        whole = {**found.get("status", {}), **status}
        self.update(kind, {**found, "status": whole}, "status")

    def update(self, kind: str, obj: JSON, subresource: str = "") -> None:
        """Replace an object, or its status."""
        name, objects = obj["metadata"]["name"], self.cluster.server.objects
        objects.update(self._kind(kind), "default", name, obj, subresource)

    def delete(self, kind: str, name: str) -> None:
        """Delete an object."""
        deletion = parse_deletion({"propagationPolicy": "Background"}, {})
        objects = self.cluster.server.objects
        objects.delete(self._kind(kind), "default", name, deletion)
