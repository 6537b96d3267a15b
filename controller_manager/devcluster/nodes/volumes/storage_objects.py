"""Claims, volumes and classes of a cluster, for the parts of a driver."""

from typing import Any

from controller_manager.api.json_objects import JSON
from controller_manager.api.times import format_time
from controller_manager.devcluster.kinds.core.persistentvolume import KIND as VOLUME
from controller_manager.devcluster.kinds.core.persistentvolumeclaim import KIND as CLAIM
from controller_manager.devcluster.kinds.storage.storageclass import KIND as CLASS
from controller_manager.devcluster.server.registry.objects import Objects
from controller_manager.devcluster.server.rest.kind import Kind
from controller_manager.devcluster.server.storage.storage import Key


class StorageObjects:
    """Reads and writes objects of the API server in the same process.

    The API server refuses a write of an object that has changed since the read, as on a
    real cluster; here that never happens, because read and write happen in one step.
    """

    def __init__(self, objects: Objects) -> None:
        self.objects = objects

    def now(self) -> str:
        """Return the present time in the form of the API."""
        return format_time(self.objects.clock.now())

    def claim(self, key: Key) -> JSON | None:
        """Return a claim, `None` if there is none."""
        return self._found(CLAIM, key)

    def volume(self, name: str) -> JSON | None:
        """Return a volume, `None` if there is none."""
        return self._found(VOLUME, ("", name))

    def class_of(self, claim: JSON) -> JSON | None:
        """Return the class of a claim, `None` if there is none."""
        return self._found(CLASS, ("", claim["spec"].get("storageClassName") or ""))

    def _found(self, kind: Kind, key: Key) -> JSON | None:
        stored = self.objects.storage.collection(kind.resource).get(key)
        return None if stored is None else stored.obj

    def update(
        self, kind: Kind, old: JSON, subresource: str = "", **parts: Any
    ) -> JSON:
        """Replace parts of an object, such as its spec or its status; return it."""
        metadata = old["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        new = {**old, **parts}
        return self.objects.update(kind, namespace, name, new, subresource).obj

    def annotate(self, kind: Kind, old: JSON, **parts: Any) -> JSON:
        """Add `annotations` to an object, and replace its other `parts`."""
        metadata = old["metadata"]
        more = {**metadata.get("annotations", {}), **parts.pop("annotations")}
        return self.update(
            kind, old, metadata={**metadata, "annotations": more}, **parts
        )

    def set_finalizer(
        self, kind: Kind, old: JSON, finalizer: str, *, present: bool
    ) -> JSON:
        """Add or remove a finalizer, unless that is done already."""
        metadata = old["metadata"]
        before = metadata.get("finalizers") or []
        after = [each for each in before if each != finalizer]
        after += [finalizer] if present else []
        if sorted(before) == sorted(after):
            return old
        return self.update(kind, old, metadata={**metadata, "finalizers": after})
