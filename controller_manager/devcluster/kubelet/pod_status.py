"""The status of a pod and of its containers, written and restored.

Upstream: pkg/kubelet/kubelet_pods.go.
"""

from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import parse_time

from .commands import FOREVER
from .containers import (
    FIRST_BACKOFF,
    LONGEST_BACKOFF,
    ContainerRun,
    Moment,
    ProbeKind,
    Step,
)
from .machine import NodeMachine, image_id, pod_name
from .node_status import IPV4, pod_address
from .pods import PodRun, container_of, specs_of, statuses_of
from .programs import Program, Role, has_any, lines_of

# The containerStatus that a kubelet reports (pkg/kubelet/kubelet_pods.go).

_FALLBACK: Final = "FallbackToLogsOnError"
_LAST_LINES: Final = 80
_LAST_BYTES: Final = 2048
"""The most bytes of a log in the message of a failed container."""


def _container_status(pod: JSON, run: ContainerRun, *, initializing: bool) -> JSON:
    """Return the status of a container; a new one may wait for init containers."""
    spec = run.spec
    waiting = {"reason": "PodInitializing" if initializing else "ContainerCreating"}
    has_run = run.step is not Step.NEW and ("waiting" not in run.state or run.last)
    status: JSON = {
        "name": spec["name"],
        "image": spec["image"],
        "imageID": image_id(spec["image"]) if has_run else "",
        "ready": run.is_ready and run.role is not Role.EPHEMERAL,
        "started": run.is_started and run.role is not Role.EPHEMERAL,
        "restartCount": run.restarts,
        "state": _identified(pod, run, run.state, 0) or {"waiting": waiting},
        "lastState": _identified(pod, run, run.last, 1),
    }
    if has_run:
        is_new = "waiting" not in run.state
        status["containerID"] = _container_id(pod, run, 0 if is_new else 1)
    if run.step is Step.RUNNING:
        status |= _in_use(spec)
    if mounts := spec.get("volumeMounts"):
        status["volumeMounts"] = [_mount(each) for each in mounts]
    return status


def _container_id(pod: JSON, run: ContainerRun, runs_ago: int) -> str:
    number = run.restarts - runs_ago
    text = f"{pod['metadata']['uid']} {run.spec['name']} {number}"
    return f"containerd://{sha256(text.encode()).hexdigest()}"


def _identified(pod: JSON, run: ContainerRun, state: JSON, runs_ago: int) -> JSON:
    ended = state.get("terminated")
    if ended is None or "containerID" in ended:
        return state
    told = {"containerID": _container_id(pod, run, runs_ago)}
    if message := _last_words(pod, run, ended):
        told["message"] = message
    return {"terminated": {**ended, **told}}


def _last_words(pod: JSON, run: ContainerRun, ended: JSON) -> str:
    """Return the end of the log of a container that has failed, if it asks for it."""
    if run.spec.get("terminationMessagePolicy") != _FALLBACK or not ended["exitCode"]:
        return ""
    began, end = parse_time(ended["startedAt"]), parse_time(ended["finishedAt"])
    seconds = (end - began).total_seconds()
    program = run.program if isinstance(run.program, Program) else None
    printed = lines_of(pod, run.spec, program)
    lines = [each.text for each in printed if each.after <= seconds]
    return "".join(f"{each}\n" for each in lines[-_LAST_LINES:])[-_LAST_BYTES:]


def _in_use(spec: JSON) -> JSON:
    resources = spec.get("resources") or {}
    found: JSON = {"resources": resources}
    if requests := resources.get("requests"):
        found["allocatedResources"] = requests
    return found


def _mount(mount: JSON) -> JSON:
    found = {"mountPath": mount["mountPath"], "name": mount["name"]}
    if mount.get("readOnly"):
        found |= {"readOnly": True, "recursiveReadOnly": "Disabled"}
    return found


# The status that a kubelet reports of a pod (pkg/kubelet/status/generate.go).

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
            _container_status(pod, each, initializing=bool(init)) for each in run.main
        ],
        "startTime": before.get("startTime") or run.seen,
    }
    if init:
        status["initContainerStatuses"] = [
            _container_status(pod, each, initializing=initializing) for each in init
        ]
    if ephemeral:
        status["ephemeralContainerStatuses"] = [
            _container_status(pod, each, initializing=False) for each in ephemeral
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
    unready = [
        each.spec["name"]
        for each in run.containers
        if each.role in (Role.MAIN, Role.SIDECAR) and not each.is_ready
    ]
    if not unready:
        return type_, "True", "", ""
    message = f"containers with unready status: {_listed(unready)}"
    return type_, "False", "ContainersNotReady", message


def _ready(pod: JSON, serving: _Condition) -> _Condition:
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


def _listed(names: list[str]) -> str:
    return f"[{' '.join(names)}]"


# Tests of a pod's status: new, running, ended.

_NOT_BEGUN: Final = ("ContainerCreating", "PodInitializing")
"""The reasons of a container that has not started yet."""


def is_over(pod: JSON) -> bool:
    """Tell whether no container of a pod will run again."""
    return pod.get("status", {}).get("phase") in ("Failed", "Succeeded")


def has_begun(pod: JSON) -> bool:
    """Tell whether a container of a pod has run, or cannot start."""
    return bool(pod["spec"].get("nodeName")) and not has_not_begun(pod)


def has_not_begun(pod: JSON) -> bool:
    """Tell whether no container of a pod has started yet."""
    status = pod.get("status", {})
    return all(
        each.get("state", {}).get("waiting", {}).get("reason") in _NOT_BEGUN
        and not each.get("lastState")
        for name in ("initContainerStatuses", "containerStatuses")
        for each in status.get(name, ())
    )


def needs_attention(pod: JSON) -> bool:
    """Tell whether a pod without a next step may need a change of its status."""
    spec = pod["spec"]
    return bool(
        spec.get("activeDeadlineSeconds") is not None
        or spec.get("readinessGates")
        or has_any(pod)
        or _has_expressions(spec)
        or shows_older_generation(pod)
        or list(_images(spec, "initContainers", "containers"))
        != list(_images(pod["status"], "initContainerStatuses", "containerStatuses"))
    )


def _has_expressions(spec: JSON) -> bool:
    """Tell whether annotations and labels of a pod may be parts of paths."""
    return any(
        "subPathExpr" in mount
        for each in (*spec.get("initContainers", ()), *spec["containers"])
        for mount in each.get("volumeMounts") or ()
    )


def shows_older_generation(pod: JSON) -> bool:
    """Tell whether a kubelet reported the pod's status before its spec changed."""
    observed = pod["status"].get("observedGeneration")
    return observed is not None and observed != pod["metadata"].get("generation", 1)


def _images(obj: JSON, *lists: str) -> Iterator[str]:
    for name in lists:
        yield from (each.get("image", "") for each in obj.get(name, ()))


def gates_differ(pod: JSON, run: PodRun) -> bool:
    """Tell whether the readiness gates of a pod change its readiness."""
    if not pod["spec"].get("readinessGates"):
        return False
    conditions = pod.get("status", {}).get("conditions", ())
    shown = any(
        each["type"] == "Ready" and each["status"] == "True" for each in conditions
    )
    status = _ready(pod, _containers_ready(run, run.phase))[1]
    return (status == "True") != shown


# Restores the runs of pods from their statuses.

At = Callable[[str], float]
"""Converts a time of the API to seconds of the monotonic clock."""


def adopted_run(pod: JSON, now: Moment, at: At, machine: NodeMachine) -> PodRun:
    """Return the run of a pod from its status; `at` converts its times."""
    statuses, containers = statuses_of(pod), []
    for spec, role in specs_of(pod):
        known = _recalled(pod, spec, role, now, machine)
        containers.append(_adopted(known, statuses.get(spec["name"]), now, at))
    return PodRun(
        pod_name(pod),
        now.text,
        pod["spec"]["restartPolicy"],
        tuple(containers),
        annotations=pod["metadata"].get("annotations"),
    )


def with_annotations_of(
    run: PodRun, pod: JSON, now: Moment, machine: NodeMachine
) -> PodRun:
    """Return the pod with its present annotations; past events stay."""
    annotations = pod["metadata"].get("annotations")
    if annotations == run.annotations:
        return run
    containers = []
    for old, (spec, role) in zip(run.containers, specs_of(pod), strict=True):
        new = _recalled(pod, spec, role, now, machine)
        containers.append(_with_fate_of(old, new, now))
    return replace(run, containers=tuple(containers), annotations=annotations)


def _recalled(
    pod: JSON, spec: JSON, role: Role, now: Moment, machine: NodeMachine
) -> ContainerRun:
    """Return a container with the program that it has found at its start, if any."""
    container = container_of(pod, spec, role, now.seconds, machine)
    if isinstance(container.program, Program) and container.program.depends:
        known = machine.files.program(pod, spec["name"])
        return replace(container, program=known or container.program)
    return container


def _with_fate_of(old: ContainerRun, new: ContainerRun, now: Moment) -> ContainerRun:
    changed = replace(old, program=new.program, probes=new.probes)
    if old.step is Step.STUCK:
        return replace(changed, due=now.seconds)
    if old.step is not Step.RUNNING or old.stop_code is not None:
        return changed
    passing = {each.kind: each.passes for each in old.probes}
    status = {
        "started": old.is_started,
        "ready": old.is_ready and passing.get(ProbeKind.READINESS, True),
    }
    return _running(changed, status, now, lambda _: old.began)


def _adopted(
    container: ContainerRun, status: JSON | None, now: Moment, at: At
) -> ContainerRun:
    if status is None:
        return container
    state = status.get("state") or {}
    adopted = replace(
        container,
        spec={**container.spec, "image": status.get("image", container.spec["image"])},
        step=Step.STUCK,
        state=state,
        last=status.get("lastState") or {},
        restarts=status.get("restartCount", 0),
    )
    if "running" in state:
        return _running(adopted, status, now, at)
    if "terminated" in state:
        return replace(adopted, step=Step.ENDED, due=None)
    reason = state.get("waiting", {}).get("reason")
    if reason in ("ContainerCreating", "PodInitializing") and not adopted.last:
        return replace(adopted, step=Step.NEW, state={})
    if adopted.last and reason == "CrashLoopBackOff":
        return _backing_off(adopted, now)
    return adopted


def _running(
    container: ContainerRun, status: JSON, now: Moment, at: At
) -> ContainerRun:
    started = container.state["running"].get("startedAt")
    began = at(started) if started else now.seconds
    is_started = status.get("started", True)
    passing = {
        ProbeKind.STARTUP: is_started,
        ProbeKind.READINESS: status.get("ready", False),
        ProbeKind.LIVENESS: True,
    }
    probes = tuple(
        each.resumed(began, now.seconds, passes=passing[each.kind])
        if is_started or each.kind is ProbeKind.STARTUP
        else each
        for each in container.probes
    )
    program = container.program
    due = began + program.seconds if isinstance(program, Program) else None
    return replace(
        container,
        step=Step.RUNNING,
        began=began,
        due=None if due == FOREVER else due,
        probes=probes,
    )


def _backing_off(container: ContainerRun, now: Moment) -> ContainerRun:
    restarts = max(0, container.restarts - 1)
    delay = min(FIRST_BACKOFF * 2.0 ** min(restarts, 5), LONGEST_BACKOFF)
    return replace(
        container,
        step=Step.BACKING_OFF,
        due=now.seconds + delay,
        backoff=min(delay * 2, LONGEST_BACKOFF),
    )
