"""Short ways to make daemon sets, nodes and pods."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from controller_manager.api.apps.v1 import DaemonSet
from controller_manager.api.core.v1 import Node, Pod
from controller_manager.api.json_objects import JSON
from controller_manager.controllers.apps.daemonset.nodes import Fit
from controller_manager.controllers.apps.daemonset.pods import DaemonPods, Plan
from tests.controllers.builders import daemon_set_json

NOW: Final = datetime(2026, 1, 1, 1, tzinfo=UTC)
NEW: Final = "new"
"""The hash of the current revision; pods with another one are old."""


def daemon_set(
    name: str = "agent",
    surge: Any = 0,
    unavailable: Any = 1,
    *,
    kind: str = "RollingUpdate",
    **spec: Any,
) -> DaemonSet:
    """Return a daemon set as it is cached."""
    strategy: JSON = {"type": kind}
    if kind == "RollingUpdate":
        bounds = {"maxSurge": surge, "maxUnavailable": unavailable}
        strategy["rollingUpdate"] = bounds
    obj = daemon_set_json(name, **{"updateStrategy": strategy, **spec})
    obj["metadata"] |= {"uid": name, "generation": 1}
    return msgspec.json.decode(msgspec.json.encode(obj), type=DaemonSet)


def node(name: str, *taints: str, **labels: str) -> Node:
    """Return a node; a taint reads ``key:effect`` or ``key=value:effect``."""
    spec = {"taints": [_taint(each) for each in taints]}
    obj = {"metadata": {"name": name, "labels": labels}, "spec": spec}
    return msgspec.convert(obj, Node)


def _taint(text: str) -> JSON:
    identity, _, effect = text.partition(":")
    key, _, value = identity.partition("=")
    return {"key": key, "value": value, "effect": effect}


def pod(name: str, on: str = "", **fields: Any) -> Pod:
    """Return a ready pod of the current revision, on a node; `fields` change that.

    `bound` false means that the pod only asks for the node. The name tells the age
    unless `created` does, in seconds.
    """
    bound = fields.pop("bound", True)
    ready, phase = fields.pop("ready", True), fields.pop("phase", "Running")
    generation = fields.pop("generation", None)
    created, since = fields.pop("created", 0), fields.pop("since", 0)
    metadata: JSON = {
        "name": name,
        "namespace": "default",
        "uid": name,
        "creationTimestamp": f"2026-01-01T00:00:{created:02}Z",
        "labels": {"app": "agent", "controller-revision-hash": fields.pop("hash", NEW)},
    }
    if generation is not None:
        metadata["labels"]["pod-template-generation"] = generation
    if fields.pop("leaving", False):
        metadata["deletionTimestamp"] = "2026-01-01T00:01:00Z"
    conditions = [
        {
            "type": "Ready",
            "status": str(ready),
            "lastTransitionTime": f"2026-01-01T00:59:{since:02}Z",
        }
    ]
    spec: JSON = {"nodeName": on} if bound else {"affinity": for_node(on)}
    assert not fields, fields
    obj = {
        "metadata": metadata,
        "spec": spec,
        "status": {"phase": phase, "conditions": conditions},
    }
    return msgspec.convert(obj, Pod)


def for_node(name: str, **rest: Any) -> JSON:
    """Return the affinity of a pod that requires a node."""
    field = {"key": "metadata.name", "operator": "In", "values": [name]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    key = "requiredDuringSchedulingIgnoredDuringExecution"
    return {**rest, "nodeAffinity": {**rest.get("nodeAffinity", {}), key: required}}


def placed(*pods: Pod, of: DaemonSet | None = None, **fits: Fit) -> DaemonPods:
    """Return the pods of three nodes that must have one; `fits` change or add nodes."""
    return placed_of(pods, fits, of or daemon_set())


def placed_of(
    pods: Iterable[Pod], fits: Mapping[str, Fit], of: DaemonSet | None = None
) -> DaemonPods:
    """Return the pods as `placed` does."""
    nodes = {**dict.fromkeys(("n1", "n2", "n3"), Fit.RUN), **fits}
    return DaemonPods.of(of or daemon_set(), NEW, nodes, pods, lambda _: None)


def summary(plan: Plan) -> tuple[list[str], list[str]]:
    """Return the nodes and the names of the pods to delete, sorted."""
    return sorted(plan.nodes), sorted(each.pod.metadata.name for each in plan.deletions)
