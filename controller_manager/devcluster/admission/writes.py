"""Functions of plugins about a write: its parts, and the refusal."""

from collections.abc import Mapping
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.server.apimachinery.statuses import (
    Refusal,
    forbidden,
)
from controller_manager.devcluster.server.rest.admission import Target, Write

PODS: Final[frozenset[Target]] = frozenset((("", "pods", ""),))
CLAIMS: Final[frozenset[Target]] = frozenset((("", "persistentvolumeclaims", ""),))


def concerns(write: Write, group: str, plural: str, subresource: str = "") -> bool:
    """Tell whether a write is to a resource, or to one of its subresources."""
    kind = write.kind
    found = (kind.group, kind.plural, write.subresource)
    return found == (group, plural, subresource)


def object_of(write: Write) -> JSON:
    """Return the new object of a write that has one."""
    assert write.obj is not None  # noqa: S101 - for DELETE alone it is None
    return write.obj


def spec_of(write: Write) -> JSON:
    """Return the spec of the new object, to be changed in place."""
    spec: JSON = object_of(write).setdefault("spec", {})
    return spec


def annotations_of(obj: JSON) -> Mapping[str, str]:
    """Return the annotations of an object."""
    found: Mapping[str, str] = obj["metadata"].get("annotations") or {}
    return found


def refused(write: Write, why: str) -> Refusal:
    """Return the refusal of a write (admission.NewForbidden)."""
    kind = write.kind
    name = write.shown_name or "Unknown"
    return forbidden(kind.group, kind.plural, name, why)
