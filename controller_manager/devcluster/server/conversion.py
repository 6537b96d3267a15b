"""One object in several versions of its kind (conversion strategy None)."""

from controller_manager.devcluster.server.kind import Kind
from controller_manager.devcluster.server.storage import Stored


def in_version(kind: Kind, stored: Stored) -> Stored:
    """Return an object with the version in which it was requested."""
    if not kind.is_custom or stored.obj["apiVersion"] == kind.api_version:
        return stored
    head = {"kind": kind.kind, "apiVersion": kind.api_version}
    rest = {key: value for key, value in stored.obj.items() if key not in head}
    return Stored({**head, **rest}, stored.version)
