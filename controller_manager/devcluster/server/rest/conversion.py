"""One object in several versions of its kind."""

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.server.rest.kind import Kind
from controller_manager.devcluster.server.storage.storage import Stored


def in_version(kind: Kind, stored: Stored) -> Stored:
    """Return an object with the version in which it was requested.

    The versions of a custom resource differ by their name and their schema
    (conversion strategy None).
    """
    if kind.is_custom:
        obj = kind.strategy.shown(stored)
        if obj is stored.obj and obj["apiVersion"] == kind.api_version:
            return stored
        return Stored(_headed(kind, obj), stored.version)
    if stored.obj["apiVersion"] == kind.api_version or not kind.conversion:
        return stored
    return Stored(
        _headed(kind, kind.conversion.from_stored(stored.obj)), stored.version
    )


def to_stored(kind: Kind, obj: JSON) -> JSON:
    """Return an object of a request in the version in which it is stored."""
    if not kind.conversion:
        return obj
    return _headed(kind.stored, kind.conversion.to_stored(obj))


def _headed(kind: Kind, obj: JSON) -> JSON:
    """Return `obj` with the kind and the version of `kind`."""
    head = {"kind": kind.kind, "apiVersion": kind.api_version}
    return {**head, **{key: value for key, value in obj.items() if key not in head}}
