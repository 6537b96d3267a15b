"""Orders in which a server can carry out what users and controllers sent.

A recording has the steps of users and the writes of controllers, each in order, but
does not say how the two mix. A server is right if there is one order in which it
answers everything as the recorded server did.
"""

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.kind import Kind
from controller_manager.devcluster.apiserver.negotiation import check_object
from controller_manager.devcluster.apiserver.objects import Objects
from controller_manager.devcluster.apiserver.updating import patched
from controller_manager.devcluster.scheme.statuses import Refusal
from tests.devcluster.registry.recorded import status_of

_PATCHES = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}


class Subject:
    """An object that users create, change and delete, and controllers report on."""

    def __init__(self, objects: Objects, kind: Kind, namespace: str, name: str) -> None:
        """Take the server's objects, and the object's kind, namespace and name."""
        self._objects = objects
        self._kind = kind
        self._key = (namespace, name)

    def find_order(self, steps: list[JSON], writes: list[JSON]) -> tuple[int, int]:
        """Return how many steps and writes can be carried out in the best order.

        A write that was answered with 422 counts if it is refused, every other if it
        is accepted.
        """
        best = (0, 0)
        waiting: list[tuple[int, int, JSON | None]] = [(0, 0, None)]
        seen: set[tuple[int, int]] = set()
        while waiting and best != (len(steps), len(writes)):
            step, write, obj = waiting.pop()
            if (step, write) in seen:
                continue
            seen.add((step, write))
            best = max(best, (step, write), key=sum)
            if step < len(steps):
                after = self._after_step(obj, steps[step])
                waiting += [(step + 1, write, each) for each in after]
            if obj is not None and write < len(writes):
                written = self._after_write(obj, writes[write])
                waiting += [(step, write + 1, each) for each in written]
        return best

    def _after_step(self, obj: JSON | None, step: JSON) -> list[JSON | None]:
        """Return the object after a step of a user; nothing if it is refused."""
        (name, value), *_ = step.items()
        if name == "delete":
            return [None]
        if name == "create":
            return [self._created(value)]
        if obj is None:
            return []
        changed = patched(
            obj, value["patch"], _PATCHES[value.get("type", "strategic")], self._kind
        )
        return list(self._updated(obj, changed, value.get("subresource", "")))

    def _after_write(self, obj: JSON, write: JSON) -> list[JSON]:
        """Return the object after a status is written; nothing if that differs."""
        after = self._updated(obj, {**obj, "status": status_of(write)}, "status")
        if write["code"] == 422:
            return [] if after else [obj]
        return after

    def _created(self, given: JSON) -> JSON:
        self._restore(None)
        body, _ = check_object(given, self._kind, self._kind.version)
        return self._objects.create(self._kind, self._key[0], body).obj

    def _updated(self, obj: JSON, changed: JSON, subresource: str) -> list[JSON]:
        self._restore(obj)
        body, _ = check_object(changed, self._kind, self._kind.version)
        body["metadata"].pop("resourceVersion", None)
        try:
            stored = self._objects.update(self._kind, *self._key, body, subresource)
        except Refusal:
            return []
        return [stored.obj]

    def _restore(self, obj: JSON | None) -> None:
        collection = self._objects.storage.collection(self._kind.resource)
        if collection.get(self._key) is not None:
            collection.remove(self._key)
        if obj is not None:
            collection.put(self._key, obj)
