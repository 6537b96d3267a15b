"""Prepares the new object of an update (registry/rest).

The path of a request names the object, and decides which fields may change.
"""

from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.server.apimachinery.statuses import (
    Cause,
    bad_request,
)
from controller_manager.devcluster.server.rest.kind import Kind

SERVER_OWNED: Final = (
    "uid",
    "creationTimestamp",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
)
"""Fields of the metadata that clients cannot change."""


def place(kind: Kind, namespace: str, metadata: JSON) -> None:
    """Put an object into the namespace of its path; raises Refusal for another one."""
    given = metadata.get("namespace", "")
    if not kind.namespaced:
        metadata.pop("namespace", None)
        return
    if given and given != namespace:
        message = (
            "the namespace of the provided object does not match the "
            "namespace sent on the request"
        )
        raise bad_request(message)
    metadata["namespace"] = namespace


def check_identity(kind: Kind, namespace: str, name: str, metadata: JSON) -> None:
    """Raise Refusal unless an object has the namespace and the name of its path."""
    place(kind, namespace, metadata)
    given = metadata.get("name", "")
    if not given:
        message = (
            f"the name of the object ({name} based on URL) was undeterminable: name "
            "must be provided"
        )
        raise bad_request(message)
    if given != name:
        message = (
            f"the name of the object ({given}) does not match the name on the "
            f"URL ({name})"
        )
        raise bad_request(message)


def _carry_over(old: JSON, metadata: JSON) -> None:
    """Copy the fields that the server owns from the old metadata to the new."""
    for name in SERVER_OWNED:
        metadata.pop(name, None)
        if name in old["metadata"]:
            metadata[name] = old["metadata"][name]
    metadata.pop("managedFields", None)
    if "managedFields" in old["metadata"]:
        metadata["managedFields"] = old["metadata"]["managedFields"]
    metadata["resourceVersion"] = old["metadata"]["resourceVersion"]


def planned_update(kind: Kind, old: JSON, new: JSON, subresource: str) -> JSON:
    """Return the object after an update, with defaults; it changes `new`."""
    _carry_over(old, new["metadata"])
    planned = _replaced(kind, old, new, subresource)
    kind.strategy.apply_defaults(planned)
    return planned


def _replaced(kind: Kind, old: JSON, new: JSON, subresource: str) -> JSON:
    """Return the new object: the endpoint decides which fields may change."""
    if subresource == "status":
        metadata = new["metadata"]
        for name in kind.strategy.kept_by_status:
            metadata.pop(name, None)
            if name in old["metadata"]:
                metadata[name] = old["metadata"][name]
        has_none = kind.is_custom and "status" not in new
        new = {**old, "metadata": metadata, "status": new.get("status", {})}
        if has_none:
            del new["status"]
        kind.strategy.prepare_for_status_update(old, new)
        return new
    if subresource:
        found = kind.subresource(subresource)
        assert found is not None  # noqa: S101 - the path has been checked
        assert found.replace is not None  # noqa: S101 - likewise
        return found.replace(old, new)
    if kind.has_status:
        new.pop("status", None)
        if "status" in old:
            new["status"] = old["status"]
    kind.strategy.prepare_for_update(old, new)
    return new


def problems_of_update(
    kind: Kind, old: JSON, new: JSON, subresource: str
) -> list[Cause]:
    """Return the errors in an update, except those in the metadata."""
    strategy = kind.strategy
    if subresource == "status":
        changes = strategy.validate_status_update(old, new)
        return [*strategy.validate_status(new), *changes]
    return [*strategy.validate(new), *strategy.validate_update(old, new)]
