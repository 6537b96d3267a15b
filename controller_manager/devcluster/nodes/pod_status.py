"""The status that a kubelet reports of a pod (pkg/kubelet/status/generate.go)."""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from controller_manager.api.json_objects import JSON

from .addresses import IPV4, pod_address
from .container_runs import ContainerRun, Moment, Step
from .container_status import container_status, ephemeral_status
from .pod_runs import PodRun
from .programs import Role

_OVER: Final = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}
"""The reason why a pod of a phase is not ready."""


class Place(Struct, frozen=True):
    """The network of a pod: the addresses of its node, and the families."""

    host: tuple[str, ...] = ()
    families: tuple[str, ...] = (IPV4,)


def pod_status(pod: JSON, run: PodRun, now: Moment, place: Place) -> JSON:
    """Return the status of a pod with the containers of `run`.

    Conditions that are not the kubelet's stay, and so does a condition's time if its
    status does not change.
    """
    before, phase = pod.get("status", {}), run.phase
    init = [each for each in run.containers if each.role in (Role.INIT, Role.SIDECAR)]
    ephemeral = [each for each in run.containers if each.role is Role.EPHEMERAL]
    initializing = any(each.step is Step.NEW for each in init)
    status = {
        **before,
        "observedGeneration": pod["metadata"].get("generation", 1),
        "phase": phase,
        "conditions": list(_conditions(pod, run, phase, now)),
        "containerStatuses": [
            container_status(pod, each, initializing=bool(init)) for each in run.main
        ],
        "startTime": before.get("startTime") or run.seen,
    }
    if init:
        status["initContainerStatuses"] = [
            container_status(pod, each, initializing=initializing) for each in init
        ]
    if ephemeral:
        status["ephemeralContainerStatuses"] = [
            ephemeral_status(pod, each) for each in ephemeral
        ]
    if run.failure is not None:
        status["reason"], status["message"] = run.failure
    return status | _addresses(pod, run, place)


def _addresses(pod: JSON, run: PodRun, place: Place) -> JSON:
    """Return the addresses of a pod; it has some of its own once it has run."""
    found: JSON = {}
    if place.host:
        found["hostIP"] = place.host[0]
        found["hostIPs"] = [{"ip": each} for each in place.host]
    if not run.is_running:
        return found
    addresses = [pod_address(pod, each) for each in place.families]
    if pod["spec"].get("hostNetwork") and place.host:
        addresses = list(place.host)
    first = pod.get("status", {}).get("podIP")
    addresses = [first, *addresses[1:]] if first else addresses
    found["podIP"] = addresses[0]
    found["podIPs"] = [{"ip": each} for each in addresses]
    return found


def is_ready(pod: JSON, run: PodRun) -> bool:
    """Tell whether a pod is ready, its readiness gates included."""
    _, status, _, _ = _ready(pod, _containers_ready(run, run.phase))
    return status == "True"


_Condition = tuple[str, str, str, str]
"""Type, status, reason, message."""


def _conditions(pod: JSON, run: PodRun, phase: str, now: Moment) -> Iterator[JSON]:
    before = pod.get("status", {}).get("conditions", [])
    generation = pod["metadata"].get("generation", 1)
    named = {each["type"]: each for each in before}
    serving = _containers_ready(run, phase)
    of_kubelet = (
        ("PodReadyToStartContainers", str(run.has_sandbox), "", ""),
        _initialized(run, phase),
        _ready(pod, serving),
        serving,
        ("PodScheduled", "True", "", ""),
    )
    for type_, status, reason, message in of_kubelet:
        old = named.pop(type_, {})
        same = old.get("status") == status
        condition = {
            "type": type_,
            "observedGeneration": generation,
            "status": status,
            "lastProbeTime": None,
            "lastTransitionTime": old["lastTransitionTime"] if same else now.text,
        }
        if reason:
            condition["reason"] = reason
        if message:
            condition["message"] = message
        yield condition
    yield from named.values()


def _initialized(run: PodRun, phase: str) -> _Condition:
    type_ = "Initialized"
    if phase == "Succeeded":
        return type_, "True", "PodCompleted", ""
    missing = [
        each.spec["name"]
        for each in run.containers
        if (each.role is Role.INIT and not each.is_ready)
        or (each.role is Role.SIDECAR and not each.is_started)
    ]
    if not missing or any(each.step is not Step.NEW for each in run.main):
        return type_, "True", "", ""
    message = f"containers with incomplete status: {_listed(missing)}"
    return type_, "False", "ContainersNotInitialized", message


def _containers_ready(run: PodRun, phase: str) -> _Condition:
    type_ = "ContainersReady"
    over = _OVER.get(phase)
    if over is not None:
        return type_, "False", over, ""
    unready = [each.spec["name"] for each in _serving(run) if not each.is_ready]
    if not unready:
        return type_, "True", "", ""
    message = f"containers with unready status: {_listed(unready)}"
    return type_, "False", "ContainersNotReady", message


def _ready(pod: JSON, serving: _Condition) -> _Condition:
    """Return the condition Ready of a pod with this condition ContainersReady."""
    ready = ("Ready", *serving[1:])
    if ready[1] == "False" or not pod["spec"].get("readinessGates"):
        return ready
    conditions = pod.get("status", {}).get("conditions", [])
    given = {each["type"]: each["status"] for each in conditions}
    gates = [each["conditionType"] for each in pod["spec"]["readinessGates"]]
    messages = [_closed(gate, given.get(gate)) for gate in gates]
    message = ", ".join(filter(None, messages))
    if message:
        return "Ready", "False", "ReadinessGatesNotReady", message
    return ready


def _closed(gate: str, status: str | None) -> str:
    """Return why a readiness gate is closed, empty if it is open."""
    if status is None:
        return f'corresponding condition of pod readiness gate "{gate}" does not exist.'
    if status == "True":
        return ""
    return f'the status of pod readiness gate "{gate}" is not "True", but {status}'


def _serving(run: PodRun) -> Iterator[ContainerRun]:
    return (each for each in run.containers if each.role in (Role.MAIN, Role.SIDECAR))


def _listed(names: list[str]) -> str:
    return f"[{' '.join(names)}]"
