"""What a review asks about."""

from typing import Any

from controller_manager.devcluster.server.authorization import Attempt

JSON = dict[str, Any]


def attempt_of(spec: JSON) -> Attempt:
    """Return the attempt that the spec of a review describes."""
    if path := spec.get("nonResourceAttributes"):
        return Attempt(path.get("verb", ""), path=path.get("path", ""))
    wanted = spec.get("resourceAttributes") or {}
    return Attempt(
        wanted.get("verb", ""),
        group=wanted.get("group", ""),
        resource=wanted.get("resource", ""),
        subresource=wanted.get("subresource", ""),
        namespace=wanted.get("namespace", ""),
        name=wanted.get("name", ""),
    )
