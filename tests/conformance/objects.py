"""The paths of objects, and their fields."""

from typing import Any, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.registry import find_kinds

_KINDS: Final = {each.kind: each for each in reversed(find_kinds())}
"""The kinds by their names; of a kind in two groups or versions the first."""


def path_of(kind: str, namespace: str, name: str = "", subresource: str = "") -> str:
    """Return the path of objects of a kind, or of one of them.

    For the kind Namespace, `namespace` is the name. Raises KeyError for an unknown
    kind.
    """
    if kind == "Namespace":
        return f"/api/v1/namespaces/{namespace}"
    found = _KINDS[kind]
    prefix = "/apis" if found.group else "/api"
    base = f"{prefix}/{found.api_version}"
    if found.namespaced:
        base += f"/namespaces/{namespace}"
    return "/".join(part for part in (base, found.plural, name, subresource) if part)


def api_version_of(kind: str) -> str:
    """Return the API version of a kind; raises KeyError as `path_of` does."""
    return _KINDS[kind].api_version


def is_cluster_scoped(kind: str) -> bool:
    return not _KINDS[kind].namespaced


def field(obj: Any, path: str) -> Any:
    """Return the value of a field, `None` if there is none; of a list, each one's."""
    for name in path.split("."):
        if isinstance(obj, list):
            obj = [field(each, name) for each in obj]
        elif isinstance(obj, dict):
            obj = obj.get(name)
        else:
            return None
    return obj


def is_ready(pod: JSON) -> bool:
    return any(
        each["type"] == "Ready" and each["status"] == "True"
        for each in pod.get("status", {}).get("conditions", [])
    )
