"""What objects and paths of the API say of themselves."""

from dataclasses import dataclass
from typing import Any, Final

JSON = dict[str, Any]

_OF_NAMESPACES: Final = ("status", "finalize")
"""Subresources of namespaces, which are no resources in a namespace."""


@dataclass(frozen=True, slots=True)
class Target:
    """What the path of a request is about; empty is what it does not name."""

    namespace: str = ""
    plural: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def resource(self) -> str:
        """The resource as roles have it: ``pods`` or ``pods/status``."""
        return f"{self.plural}/{self.subresource}" if self.subresource else self.plural


def target_of(path: str) -> Target:
    """Return what a path is about."""
    parts = path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    namespace = ""
    if len(parts) > 2 and parts[0] == "namespaces" and parts[2] not in _OF_NAMESPACES:
        namespace, parts = parts[1], parts[2:]
    plural, name, subresource = [*parts, "", "", ""][:3]
    return Target(namespace, plural, name, subresource)


def path_of(obj: JSON) -> str:
    """Return namespace and name."""
    metadata = obj["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata['name']}"


def controller_of(obj: JSON) -> str:
    """Return the uid of an object's controller, empty for none."""
    for owner in obj["metadata"].get("ownerReferences", []):
        if owner.get("controller"):
            return str(owner["uid"])
    return ""


def lives(pod: JSON, owner: str) -> bool:
    """Tell whether a pod is one of an owner's that count."""
    return (
        controller_of(pod) == owner
        and "deletionTimestamp" not in pod["metadata"]
        and pod.get("status", {}).get("phase") not in ("Failed", "Succeeded")
    )
