"""The row of a pod in the table that kubectl prints (printers/internalversion)."""

from collections.abc import Iterable
from datetime import datetime
from typing import Final, NamedTuple

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import parse_time
from controller_manager.devcluster.apiserver import strategy
from controller_manager.devcluster.registry.kinds import name_of, true_conditions

POD_COLUMNS: Final = (
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


class _Shown(NamedTuple):
    """The cells of a pod's row that follow from its containers."""

    reason: str
    restarts: int
    last_restart: datetime | None


def pod_cells(pod: JSON, now: datetime) -> strategy.Cells:
    """Return the row of a pod."""
    spec, status = pod["spec"], pod.get("status", {})
    shown = _initializing(pod) or _running(pod)
    reason = _deleted(pod) or shown.reason
    restarts = str(shown.restarts)
    if shown.restarts and shown.last_restart is not None:
        seconds = (now - shown.last_restart).total_seconds()
        restarts += f" ({strategy.human_duration(seconds)} ago)"
    return [
        name_of(pod),
        _ready(pod),
        reason,
        restarts,
        strategy.age(pod, now),
        status.get("podIP") or strategy.NONE,
        spec.get("nodeName") or strategy.NONE,
        status.get("nominatedNodeName") or strategy.NONE,
        _gates(pod),
    ]


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
