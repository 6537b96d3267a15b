"""The scale subresource, for every kind that has one."""

from typing import Any

import msgspec

from controller_manager.api.json_objects import JSON
from controller_manager.api.selectors import LabelSelector, format_selector
from controller_manager.devcluster.apiserver.http.request_info import Target
from controller_manager.devcluster.apiserver.rest.admission import Operation, Write
from controller_manager.devcluster.apiserver.rest.kind import Kind
from controller_manager.devcluster.scheme.statuses import (
    bad_request,
    invalid,
    invalid_object,
    shown,
)
from controller_manager.devcluster.storage import Stored

from .objects import Managed, Objects
from .store import check_version


def scale_of(kind: Kind, stored: Stored) -> JSON:
    """Return the Scale of an object."""
    metadata, paths = stored.obj["metadata"], kind.scale_paths
    parts = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status: JSON = {"replicas": _value_at(stored.obj, paths.status_replicas) or 0}
    if selector := _selector_of(kind, stored.obj):
        status["selector"] = selector
    replicas = _value_at(stored.obj, paths.replicas) or 0
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: metadata[name] for name in parts if name in metadata},
        # Go omits a zero here.
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def _selector_of(kind: Kind, obj: JSON) -> str:
    """Return the selector of an object's pods as text, "" for none."""
    if path := kind.scale_paths.selector:
        return str(_value_at(obj, path) or "")
    selector = kind.strategy.label_selector(obj)
    return format_selector(msgspec.convert(selector, LabelSelector)) if selector else ""


def _value_at(obj: Any, path: tuple[str, ...]) -> Any:
    """Return the value of a field, `None` if it is absent."""
    for name in path:
        obj = obj.get(name) if isinstance(obj, dict) else None
    return obj


def with_value(obj: JSON, path: tuple[str, ...], value: Any) -> JSON:
    """Return the object with another value of a field."""
    name, *rest = path
    if rest:
        inner = obj.get(name)
        value = with_value(inner if isinstance(inner, dict) else {}, (*rest,), value)
    return {**obj, name: value}


def scaled(objects: Objects, target: Target, scale: Any, managed: Managed) -> JSON:
    """Set an object's replicas to those of a Scale; return its new Scale.

    `managed` adds the field managers, given the old and the new object.

    Raises Refusal.
    """
    kind, namespace, name = target.kind, target.namespace, target.name
    stored = objects.find(kind, namespace, name)
    metadata = scale.get("metadata") if isinstance(scale, dict) else None
    spec = scale.get("spec", {}) if isinstance(scale, dict) else None
    if not isinstance(metadata, dict) or not isinstance(spec, dict):
        raise bad_request("a Scale has metadata and a spec, both objects")
    write = Write(
        Operation.UPDATE, kind, namespace, name, scale, scale_of(kind, stored), "scale"
    )
    write.submission, write.is_dry_run = target.submission, target.dry_run
    objects.admission.mutate(write)
    scale = write.obj
    metadata, spec = scale["metadata"], scale.get("spec", {})
    # A Scale never needs a resourceVersion.
    if given := metadata.get("resourceVersion"):
        check_version(kind, stored.obj, given)
    replicas = spec.get("replicas", 0)
    if type(replicas) is not int or abs(replicas) >= 2**31:
        raise bad_request("spec.replicas must be a whole number of 32 bits")
    if replicas < 0:
        detail = "must be greater than or equal to 0"
        cause = invalid("spec.replicas", shown(replicas), detail)
        raise invalid_object("autoscaling", "Scale", name, [cause])
    objects.admission.validate(write)
    resized = with_value(stored.obj, kind.scale_paths.replicas, replicas)
    result = objects.update(
        kind, namespace, name, resized, dry_run=target.dry_run, managed=managed
    )
    return scale_of(kind, result)
