"""Pods: columns, quality of service, bindings, evictions (registry/core/pod)."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import ClassVar, Final, NamedTuple

from controller_manager.api.core.pod_templates import default_pod_spec
from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time, parse_time
from controller_manager.devcluster.apiserver import strategy
from controller_manager.devcluster.apiserver.kind import Kind
from controller_manager.devcluster.apiserver.objects import Call, Objects, RESTStorage
from controller_manager.devcluster.apiserver.request_info import parse_deletion
from controller_manager.devcluster.apiserver.store import check_deletion
from controller_manager.devcluster.registry.kinds import (
    kind_of,
    name_of,
    true_conditions,
)
from controller_manager.devcluster.registry.scheduling import (
    find_budgets,
    take_disruption,
)
from controller_manager.devcluster.scheme import statuses
from controller_manager.devcluster.storage import Storage

from . import pod_updates
from .templates import GENERIC_WORKLOAD


class _Shown(NamedTuple):
    """The cells of a pod's row that follow from its containers."""

    reason: str
    restarts: int
    last_restart: datetime | None


def _phase(pod: JSON) -> str:
    """Return the phase, or the reason that the status gives for it."""
    status = pod.get("status", {})
    gated = any(
        each.get("type") == "PodScheduled" and each.get("reason") == "SchedulingGated"
        for each in status.get("conditions", [])
    )
    if gated:
        return "SchedulingGated"
    return str(status.get("reason") or status.get("phase", strategy.UNKNOWN))


def _deleted(pod: JSON) -> str:
    """Return the text for a pod that is being deleted, empty for any other."""
    if "deletionTimestamp" not in pod["metadata"]:
        return ""
    status = pod.get("status", {})
    if status.get("reason") == "NodeLost":
        return "Unknown"
    return "" if status.get("phase") in ("Succeeded", "Failed") else "Terminating"


def _initializing(pod: JSON) -> _Shown | None:
    """Return the row of a pod that still initializes, else `None`."""
    containers = {each["name"]: each for each in pod["spec"].get("initContainers", [])}
    statuses = pod.get("status", {}).get("initContainerStatuses", [])
    restarts, sidecar_restarts = _restarts(statuses)
    for number, status in enumerate(statuses):
        container = containers.get(status["name"], {})
        sidecar = container.get("restartPolicy") == "Always"
        state = status.get("state", {})
        ended = state.get("terminated")
        if (ended is not None and ended.get("exitCode", 0) == 0) or (
            sidecar and status.get("started")
        ):
            continue
        reason = _init_reason(state, f"{number}/{len(containers)}")
        return _Shown(reason, restarts, sidecar_restarts)
    return None


def _init_reason(state: JSON, progress: str) -> str:
    if ended := state.get("terminated"):
        return f"Init:{_ended(ended)}"
    waiting = state.get("waiting", {}).get("reason", "")
    if waiting and waiting != "PodInitializing":
        return f"Init:{waiting}"
    return f"Init:{progress}"


def _running(pod: JSON) -> _Shown:
    """Return the row of a pod that has initialized, or has no init containers."""
    status = pod.get("status", {})
    statuses = status.get("containerStatuses", [])
    reason, running = _phase(pod), False
    for each in reversed(statuses):
        state = each.get("state", {})
        if waiting := state.get("waiting", {}).get("reason"):
            reason = waiting
        elif ended := state.get("terminated"):
            reason = _ended(ended)
        elif each.get("ready") and "running" in state:
            running = True
    if reason == "Completed" and running:
        reason = "Running" if "Ready" in true_conditions(pod) else "NotReady"
    sidecars = _sidecars(pod)
    restarts, last = _restarts([*statuses, *sidecars])
    return _Shown(reason, restarts, last)


def _ended(state: JSON) -> str:
    """Return why a container ended: its reason, signal or exit code."""
    if reason := state.get("reason"):
        return str(reason)
    if signal := state.get("signal"):
        return f"Signal:{signal}"
    return f"ExitCode:{state.get('exitCode', 0)}"


def _sidecars(pod: JSON) -> list[JSON]:
    """Return the statuses of the init containers that keep running."""
    names = {
        each["name"]
        for each in pod["spec"].get("initContainers", [])
        if each.get("restartPolicy") == "Always"
    }
    statuses = pod.get("status", {}).get("initContainerStatuses", [])
    return [each for each in statuses if each["name"] in names]


def _ready(pod: JSON) -> str:
    """Return how many of the containers that keep running are ready."""
    sidecars = _sidecars(pod)
    statuses = [*pod.get("status", {}).get("containerStatuses", []), *sidecars]
    ready = sum(
        1
        for each in statuses
        if each.get("ready") and "terminated" not in each.get("state", {})
    )
    return f"{ready}/{len(pod['spec'].get('containers', [])) + len(sidecars)}"


def _restarts(statuses: Iterable[JSON]) -> tuple[int, datetime | None]:
    """Return the number of restarts, and the time of the last end before one."""
    count, last = 0, None
    for each in statuses:
        count += each.get("restartCount", 0)
        ended = each.get("lastState", {}).get("terminated", {}).get("finishedAt")
        if ended and (last is None or parse_time(ended) > last):
            last = parse_time(ended)
    return count, last


def _gates(pod: JSON) -> str:
    """Return how many readiness gates are open."""
    gates = [each["conditionType"] for each in pod["spec"].get("readinessGates", [])]
    if not gates:
        return strategy.NONE
    true = true_conditions(pod)
    return f"{sum(gate in true for gate in gates)}/{len(gates)}"


# The topology labels that a pod gets from its node (plugin PodTopologyLabels).

_LABELS: Final = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


def labelled_by_node(metadata: JSON, node: str, storage: Storage) -> JSON:
    """Return the metadata of a pod with the zone and the region of its node.

    The metadata stay the same if the node does not exist or lacks the labels.
    """
    stored = storage.collection("nodes").get(("", node))
    labels = stored.obj["metadata"].get("labels", {}) if stored else {}
    copied = {name: labels[name] for name in _LABELS if name in labels}
    if not copied:
        return metadata
    return {**metadata, "labels": {**metadata.get("labels", {}), **copied}}


# The subresource ``binding``: assigns a pod to a node.


def binding(call: Call, body: JSON) -> JSON:
    """Assign a pod to the target of a Binding; raises Refusal."""
    node = (body.get("target") or {}).get("name", "")
    dry_run = call.dry_run
    bind(call.objects, call.kind, call.namespace, call.name, node, dry_run=dry_run)
    return statuses.success(201)


def bind(
    objects: Objects,
    kind: Kind,
    namespace: str,
    name: str,
    node: str,
    *,
    dry_run: bool = False,
) -> None:
    """Assign a pod of the kind `kind` to a node; raises Refusal."""
    stored = objects.find(kind, namespace, name)
    assigned = stored.obj["spec"].get("nodeName")
    if assigned:
        why = f'pod {name} is already assigned to node "{assigned}"'
        raise statuses.conflict("", "pods/binding", name, why)
    if stored.obj["metadata"].get("deletionTimestamp"):
        why = f"pod {name} is being deleted, cannot be assigned to a host"
        raise statuses.conflict("", "pods/binding", name, why)
    condition = {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": format_time(objects.clock.now()),
    }
    status = stored.obj.get("status", {})
    others = [
        each for each in status.get("conditions", []) if each["type"] != "PodScheduled"
    ]
    new = {
        **stored.obj,
        "metadata": labelled_by_node(stored.obj["metadata"], node, objects.storage),
        "spec": {**stored.obj["spec"], "nodeName": node},
        "status": {**status, "conditions": [*others, condition]},
    }
    objects.put(kind, (namespace, name), new, dry_run=dry_run)


# The subresource ``eviction``: deletes a pod if its disruption budget allows it.


def eviction(call: Call, body: JSON) -> JSON:
    """Delete a pod with the options of an Eviction; raises Refusal."""
    if body.get("metadata", {}).get("name") != call.name:
        raise statuses.bad_request("name in URL does not match name in Eviction object")
    options = parse_deletion(body.get("deleteOptions") or {}, {})
    dry_run = call.dry_run or options.dry_run
    pod = call.objects.find(call.kind, call.namespace, call.name).obj
    check_deletion(call.kind, pod, options)
    if not _is_unguarded(pod):
        _ask_budget(call, pod, dry_run=dry_run)
    if not dry_run:
        _mark_disrupted(call, pod)
        options = replace(options, resource_version="")  # the mark is a new version
    call.objects.delete(call.kind, call.namespace, call.name, options, dry_run=dry_run)
    return statuses.success(201)


def _is_unguarded(pod: JSON) -> bool:
    """Tell whether no budget can forbid the eviction of a pod."""
    phase = pod.get("status", {}).get("phase")
    return "deletionTimestamp" in pod["metadata"] or phase in (
        "Succeeded",
        "Failed",
        "Pending",
    )


def _ask_budget(call: Call, pod: JSON, *, dry_run: bool) -> None:
    """Take one disruption from the budget of a pod, if it has one; raises Refusal."""
    budgets = find_budgets(call.objects.storage, pod)
    if len(budgets) > 1:
        message = (
            "This pod has more than one PodDisruptionBudget, which the eviction "
            "subresource does not support."
        )
        raise statuses.Refusal(500, "", message)
    for budget in budgets:
        take_disruption(call.objects, budget, pod, dry_run=dry_run)


def _mark_disrupted(call: Call, pod: JSON) -> None:
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": format_time(call.objects.clock.now()),
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }
    status = pod.get("status", {})
    others = []
    for each in status.get("conditions", []):
        if each["type"] != condition["type"]:
            others.append(each)
        elif each["status"] == condition["status"]:
            condition["lastTransitionTime"] = each.get("lastTransitionTime")
    marked = {**pod, "status": {**status, "conditions": [*others, condition]}}
    call.objects.put(call.kind, (call.namespace, call.name), marked)


# Pod: containers that run together on a node.

_LONGEST: Final = 100 * 365 * 86400
"""A hundred years: longer than each wait, and the end is still a valid date."""


def _default_pod(obj: JSON) -> None:
    """Fill in the spec; what a container may use at most, it requests."""
    spec = obj.setdefault("spec", {})
    default_pod_spec(spec)
    _default_host_ports(spec)
    for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
        resources = container["resources"]
        if limits := resources.get("limits"):
            resources["requests"] = {**limits, **resources.get("requests", {})}
    spec.setdefault("enableServiceLinks", True)


def _default_host_ports(spec: JSON) -> None:
    """Fill in the ports of the node, which the containers of a pod may share.

    Upstream does so in pods, and no longer in their templates.
    """
    if not spec.get("hostNetwork"):
        return
    for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
        for port in container.get("ports", ()):
            if not port.get("hostPort") and port.get("containerPort"):
                port["hostPort"] = port["containerPort"]


class _PodStrategy(strategy.Strategy):
    """Most of a pod's spec is immutable, and a pod has a grace period."""

    records_deletion: ClassVar = True
    columns: ClassVar = (
        strategy.NAME,
        strategy.Column("Ready"),
        strategy.Column("Status"),
        strategy.Column("Restarts"),
        strategy.AGE,
        strategy.Column("IP", priority=1),
        strategy.Column("Node", priority=1),
        strategy.Column("Nominated Node", priority=1),
        strategy.Column("Readiness Gates", priority=1),
    )

    def prepare_for_create(self, obj: JSON, storage: Storage) -> None:
        """Fill in the status; admission may have changed the resources."""
        super().prepare_for_create(obj, storage)
        _make_grace_positive(obj)
        status = obj["status"]
        status.setdefault("phase", "Pending")
        status.setdefault("qosClass", pod_updates.qos_class(obj["spec"]))
        if obj["spec"].get("schedulingGates"):
            status["conditions"] = [_GATED]

    def prepare_for_update(self, old: JSON, new: JSON) -> None:
        """Replace a negative grace period, and drop the fields of disabled gates."""
        super().prepare_for_update(old, new)
        _make_grace_positive(new)

    def grace_period(self, obj: JSON, wanted: int | None) -> int:
        """Return the grace period in seconds: 0 unless the pod runs on a node."""
        spec, phase = obj["spec"], obj.get("status", {}).get("phase")
        if not spec.get("nodeName") or phase in ("Succeeded", "Failed"):
            return 0
        period = wanted
        if period is None:
            period = int(spec.get("terminationGracePeriodSeconds", 30))
        current = obj["metadata"].get("deletionGracePeriodSeconds")
        if current is not None:
            period = min(period, current)
        return min(period, _LONGEST) if period >= 0 else 1

    def cells(self, obj: JSON, now: datetime) -> strategy.Cells:
        """Return the row of the table."""
        spec, status = obj["spec"], obj.get("status", {})
        shown = _initializing(obj) or _running(obj)
        reason = _deleted(obj) or shown.reason
        restarts = str(shown.restarts)
        if shown.restarts and shown.last_restart is not None:
            seconds = (now - shown.last_restart).total_seconds()
            restarts += f" ({strategy.human_duration(seconds)} ago)"
        return [
            name_of(obj),
            _ready(obj),
            reason,
            restarts,
            strategy.age(obj, now),
            status.get("podIP") or strategy.NONE,
            spec.get("nodeName") or strategy.NONE,
            status.get("nominatedNodeName") or strategy.NONE,
            _gates(obj),
        ]


def _make_grace_positive(pod: JSON) -> None:
    """Replace a negative grace period with one second.

    The body of an update of the status may have no spec.
    """
    spec = pod.get("spec") or {}
    if spec.get("terminationGracePeriodSeconds", 0) < 0:
        spec["terminationGracePeriodSeconds"] = 1


_GATED: Final = {
    "type": "PodScheduled",
    "observedGeneration": 1,
    "status": "False",
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}
"""The condition of a new pod with scheduling gates."""

KIND: Final = kind_of(
    "v1/pods",
    _PodStrategy(),
    apply_defaults=_default_pod,
    absent_fields={"spec.hostNetwork": "false"},
    counts_generations=True,
    dropped=("spec.schedulingGroup",),
    empty={"spec": {"containers": None}, "status": {}},
    kept_by_status=("ownerReferences",),
    returns_deleted=True,
    rules="spec:\n  include POD_SPEC",
    update_rules=pod_updates.POD_UPDATE,
    status_update_rules=pod_updates.POD_STATUS_UPDATE,
    selectable_fields="""
        spec.nodeName
        spec.restartPolicy
        spec.schedulerName
        spec.serviceAccountName
        spec.hostNetwork
        status.phase
        status.podIP
        status.nominatedNodeName
        """,
    replace={
        "ephemeralcontainers": pod_updates.replace_ephemeral_containers,
        "resize": pod_updates.replace_resources,
    },
    validate={
        "ephemeralcontainers": pod_updates.validate_ephemeral_containers,
        "resize": pod_updates.validate_resize,
    },
    refusals={
        "log": (
            "pods/log is not served by the development cluster without nodes: start it "
            "with --nodes 1 or more"
        )
    },
    gated={GENERIC_WORKLOAD: {"dropped": ()}},
)
REST_STORAGE: Final = RESTStorage(
    KIND.resource, connect={"binding": binding, "eviction": eviction}
)


# Binding: assigns a pod to a node; it is never stored.


def bind_pod(call: Call, obj: JSON) -> JSON:
    """Assign the pod; raises Refusal."""
    name = obj.get("metadata", {}).get("name", "")
    node = obj.get("target", {}).get("name", "")
    bind(call.objects, KIND, call.namespace, name, node, dry_run=call.dry_run)
    return statuses.success(201)


BINDINGS: Final = kind_of("v1/bindings")
BINDING_STORAGE: Final = RESTStorage(BINDINGS.resource, create=bind_pod)
