"""Prepares the new object of an update (registry/rest).

The path of a request names the object, and decides which fields may change.
"""

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import Cause
from controller_manager.devcluster.server.rest.kind import Kind

from .stored_form import SERVER_OWNED


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
    kind.apply_defaults(planned)
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
    part = kind.subresource(subresource)
    if part is not None and part.validate is not None:
        return [*strategy.validate(new), *part.validate(old, new)]
    return [*strategy.validate(new), *strategy.validate_update(old, new)]
