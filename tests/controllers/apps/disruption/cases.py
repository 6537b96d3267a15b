"""Short ways to make budgets and pods for tests."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from controller_manager.api.core.v1 import Pod
from controller_manager.api.json_objects import JSON
from controller_manager.api.policy.v1 import PodDisruptionBudget
from controller_manager.api.scalars import format_time

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def at(seconds: float) -> str:
    """Return the time so many seconds after `NOW`."""
    return format_time(NOW + timedelta(seconds=seconds))


def budget_json(name: str = "pdb", app: str = "web", **spec: Any) -> JSON:
    """Return a budget of the pods of an app, as a user would write it."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": app}}, **spec},
    }


def budget(status: JSON | None = None, **spec: Any) -> PodDisruptionBudget:
    """Return a cached budget of generation 2."""
    body = budget_json(**spec)
    body["metadata"] |= {"generation": 2, "resourceVersion": "7", "uid": "b"}
    return msgspec.convert({**body, "status": status or {}}, PodDisruptionBudget)


def pod_json(name: str = "a", app: str = "web", owner: JSON | None = None) -> JSON:
    """Return a pod of an app; `owner` is a reference to its controller."""
    metadata: JSON = {"name": name, "namespace": "default", "labels": {"app": app}}
    if owner:
        metadata["ownerReferences"] = [{**owner, "controller": True}]
    containers = [{"name": "c", "image": "app:v1"}]
    return {"metadata": metadata, "spec": {"containers": containers}}


def pod(name: str, *, ready: bool = True, deleted: bool = False) -> Pod:
    """Return a cached pod."""
    body = pod_json(name)
    if deleted:
        body["metadata"]["deletionTimestamp"] = at(0)
    status = {"type": "Ready", "status": "True" if ready else "False"}
    body["status"] = {"phase": "Running", "conditions": [status]}
    return msgspec.convert(body, Pod)
