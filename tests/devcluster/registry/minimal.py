"""The least that an object of each kind must have to be valid."""

import copy
from pathlib import Path
from typing import Any, Final

import yaml

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.kind import Kind

_FILE: Final = Path(__file__).parents[2] / "data" / "devcluster" / "minimal.yaml"
_MORE: Final[dict[str, JSON]] = yaml.load(_FILE.read_text(), yaml.CSafeLoader)
"""The fields that a kind needs beyond its metadata; most kinds need none."""

_ADDRESSES: Final = {"a": 1, "one": 2, "two": 3, "three": 4, "unborn": 5, "zzz": 6}
"""The last numbers of the addresses of objects with these names."""


def minimal(kind: Kind, name: str = "a", **metadata: Any) -> JSON:
    """Return a new object of a kind, valid and with as little as possible."""
    is_new_event = kind.group == "events.k8s.io"
    more = _MORE.get("Event of events.k8s.io" if is_new_event else kind.kind, {})
    more = copy.deepcopy(more)
    if kind.kind == "CustomResourceDefinition":  # it must be named after its spec
        more["spec"]["names"]["plural"] = name
        name = f"{name}.example.com"
    if kind.kind == "APIService":  # likewise
        more["spec"]["version"] = name
        name = f"{name}.example.com"
    if kind.kind == "IPAddress":
        name = f"192.168.0.{_ADDRESSES[name]}"
    return {
        "kind": kind.kind,
        "apiVersion": kind.api_version,
        "metadata": {"name": name, **metadata},
        **more,
    }
