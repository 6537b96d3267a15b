"""What a review asks about."""

from typing import Any

from controller_manager.devcluster.server.authorization import Attributes

JSON = dict[str, Any]


def review_attributes(spec: JSON) -> Attributes:
    """Return the attributes that the spec of a review describes."""
    if path := spec.get("nonResourceAttributes"):
        return Attributes(path.get("verb", ""), path=path.get("path", ""))
    wanted = spec.get("resourceAttributes") or {}
    return Attributes(
        wanted.get("verb", ""),
        group=wanted.get("group", ""),
        resource=wanted.get("resource", ""),
        subresource=wanted.get("subresource", ""),
        namespace=wanted.get("namespace", ""),
        name=wanted.get("name", ""),
    )
