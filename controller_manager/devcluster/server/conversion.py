"""One object in several versions of its kind."""

from typing import Any

from controller_manager.devcluster.server.kind import Kind
from controller_manager.devcluster.server.storage import Stored

JSON = dict[str, Any]


def in_version(kind: Kind, stored: Stored) -> Stored:
    """Return an object with the version in which it was requested.

    The versions of a custom resource differ by their name alone (conversion strategy
    None).
    """
    if stored.obj["apiVersion"] == kind.api_version:
        return stored
    if kind.conversion:
        return Stored(
            _headed(kind, kind.conversion.from_stored(stored.obj)), stored.version
        )
    if not kind.is_custom:
        return stored
    return Stored(_headed(kind, stored.obj), stored.version)


def to_stored(kind: Kind, obj: JSON) -> JSON:
    """Return an object of a request in the version in which it is stored."""
    if not kind.conversion:
        return obj
    return _headed(kind.stored, kind.conversion.to_stored(obj))


def _headed(kind: Kind, obj: JSON) -> JSON:
    """Return `obj` with the kind and the version of `kind`."""
    head = {"kind": kind.kind, "apiVersion": kind.api_version}
    return {**head, **{key: value for key, value in obj.items() if key not in head}}
