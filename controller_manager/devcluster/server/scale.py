"""The scale subresource, for every kind that has one."""

from typing import Any

import msgspec

from controller_manager.api.selectors import LabelSelector, format_selector
from controller_manager.devcluster.server.kind import Kind
from controller_manager.devcluster.server.objects import Objects
from controller_manager.devcluster.server.preconditions import check_version
from controller_manager.devcluster.server.statuses import (
    bad_request,
    invalid,
    invalid_object,
    shown,
)
from controller_manager.devcluster.server.storage import Stored

JSON = dict[str, Any]


def scale_of(kind: Kind, stored: Stored) -> JSON:
    """Return the Scale of an object."""
    metadata, spec = stored.obj["metadata"], stored.obj["spec"]
    parts = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status: JSON = {"replicas": stored.obj.get("status", {}).get("replicas", 0)}
    if selector := kind.strategy.label_selector(stored.obj):
        status["selector"] = format_selector(msgspec.convert(selector, LabelSelector))
    replicas = spec.get("replicas", 0)
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: metadata[name] for name in parts if name in metadata},
        # Go omits a zero here.
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def scaled(
    objects: Objects,
    kind: Kind,
    namespace: str,
    name: str,
    scale: Any,
    *,
    dry_run: bool,
) -> JSON:
    """Set an object's replicas to those of a Scale; return its new Scale.

    Raises Refusal.
    """
    stored = objects.find(kind, namespace, name)
    metadata = scale.get("metadata") if isinstance(scale, dict) else None
    spec = scale.get("spec", {}) if isinstance(scale, dict) else None
    if not isinstance(metadata, dict) or not isinstance(spec, dict):
        raise bad_request("a Scale has metadata and a spec, both objects")
    # A Scale may always be written without a resourceVersion.
    if given := metadata.get("resourceVersion"):
        check_version(kind, stored.obj, given)
    replicas = spec.get("replicas", 0)
    if type(replicas) is not int or abs(replicas) >= 2**31:
        raise bad_request("spec.replicas must be a whole number of 32 bits")
    if replicas < 0:
        detail = "must be greater than or equal to 0"
        cause = invalid("spec.replicas", shown(replicas), detail)
        raise invalid_object("autoscaling", "Scale", name, [cause])
    resized = {**stored.obj, "spec": {**stored.obj["spec"], "replicas": replicas}}
    result = objects.update(kind, namespace, name, resized, dry_run=dry_run)
    return scale_of(kind, result)
