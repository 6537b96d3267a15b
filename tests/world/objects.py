"""What objects, and the paths and answers of requests, say."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Request, Response

FieldPath = tuple[str, ...]

Edit = Callable[[JSON], Any]
"""Changes a copy of an object in place."""

_OF_NAMESPACES: Final = ("status", "finalize")
"""Subresources of namespaces; their paths look like resources in a namespace."""

_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch"}


@dataclass(frozen=True, slots=True)
class Target:
    """The parts that the path of a request names; absent parts are empty."""

    namespace: str = ""
    plural: str = ""
    name: str = ""
    subresource: str = ""


def target_of(path: str) -> Target:
    """Return what a path names."""
    parts = path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    namespace = ""
    if len(parts) > 2 and parts[0] == "namespaces" and parts[2] not in _OF_NAMESPACES:
        namespace, parts = parts[1], parts[2:]
    plural, name, subresource = [*parts, "", "", ""][:3]
    return Target(namespace, plural, name, subresource)


@dataclass(frozen=True, slots=True)
class Write:
    """One write that was carried out: who sent it, and the object around it.

    `before` and `after` are `None` where the object does not exist. `is_late` says that
    the process was stopped while the write was on its way: an earlier state led to it.
    """

    controller: str
    target: Target
    request: Request
    answer: Response
    before: JSON | None
    after: JSON | None
    is_late: bool = False

    @property
    def verb(self) -> str:
        """The verb as RBAC rules name it."""
        return _VERBS.get(self.request.method, "delete")

    @property
    def created(self) -> JSON:
        """The object that a create made, with the name that the server gave it."""
        created: JSON = json.loads(self.answer.body)
        return created

    def kind_of(self) -> str:
        """Return the verb, the plural, and the name without what was drawn."""
        target = self.target
        metadata = (self.before or self.after or self.created).get("metadata", {})
        name = metadata.get("generateName") or metadata.get("name", "")
        place = f"{target.plural} {metadata.get('namespace', '')}/{name}"
        return f"{place}: {self.verb} {target.subresource}".rstrip()

    def __str__(self) -> str:
        who = self.controller or "the manager"
        return f"{self.request.method} {self.request.path} by {who}"


def path_of(obj: JSON) -> str:
    """Return ``namespace/name``."""
    metadata = obj["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata['name']}"


def uid_of(obj: JSON) -> str:
    """Return the uid of an object."""
    return str(obj["metadata"]["uid"])


def reference_to(owner: JSON) -> JSON:
    """Return a reference to an owner, which waits for its dependents."""
    metadata = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "blockOwnerDeletion": True,
    }


def is_deleted(obj: JSON) -> bool:
    """Tell whether an object is about to go."""
    return "deletionTimestamp" in obj["metadata"]


def controller_of(obj: JSON) -> str:
    """Return the uid of an object's controller, empty for none."""
    for owner in obj["metadata"].get("ownerReferences", []):
        if owner.get("controller"):
            return str(owner["uid"])
    return ""


def is_over(pod: JSON) -> bool:
    """Tell whether a pod has ended."""
    return pod.get("status", {}).get("phase") in ("Failed", "Succeeded")


def is_active(pod: JSON) -> bool:
    """Tell whether a pod counts for its controller."""
    return not is_deleted(pod) and not is_over(pod)


def differences(
    before: Any, after: Any, path: FieldPath = ()
) -> Iterator[tuple[FieldPath, Any, Any]]:
    """Yield each path at which two values differ, with both values.

    Lists are compared item by item only if they are of one length. The server's record
    of who has which field is left aside: it changes with each write.
    """
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted({*before, *after} - {"managedFields"}):
            yield from differences(before.get(key), after.get(key), (*path, key))
    elif (
        isinstance(before, list)
        and isinstance(after, list)
        and len(before) == len(after)
    ):
        for number, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from differences(old, new, (*path, str(number)))
    elif before != after:
        yield path, before, after
