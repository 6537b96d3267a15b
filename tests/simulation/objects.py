"""Facts that objects and paths of the API contain."""

from dataclasses import dataclass
from typing import Final

from controller_manager.api.json_objects import JSON

_OF_NAMESPACES: Final = ("status", "finalize")
"""Subresources of namespaces; their paths look like resources in a namespace."""


@dataclass(frozen=True, slots=True)
class Target:
    """The parts that the path of a request names; absent parts are empty."""

    namespace: str = ""
    plural: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def resource(self) -> str:
        """The resource as RBAC rules name it: ``pods`` or ``pods/status``."""
        return f"{self.plural}/{self.subresource}" if self.subresource else self.plural


def target_of(path: str) -> Target:
    """Return what a path names."""
    parts = path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    namespace = ""
    if len(parts) > 2 and parts[0] == "namespaces" and parts[2] not in _OF_NAMESPACES:
        namespace, parts = parts[1], parts[2:]
    plural, name, subresource = [*parts, "", "", ""][:3]
    return Target(namespace, plural, name, subresource)


def path_of(obj: JSON) -> str:
    """Return ``namespace/name``."""
    metadata = obj["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata['name']}"


def controller_of(obj: JSON) -> str:
    """Return the uid of an object's controller, empty for none."""
    for owner in obj["metadata"].get("ownerReferences", []):
        if owner.get("controller"):
            return str(owner["uid"])
    return ""


def lives(pod: JSON, owner: str) -> bool:
    """Tell whether a pod belongs to an owner and counts as active."""
    return (
        controller_of(pod) == owner
        and "deletionTimestamp" not in pod["metadata"]
        and pod.get("status", {}).get("phase") not in ("Failed", "Succeeded")
    )
