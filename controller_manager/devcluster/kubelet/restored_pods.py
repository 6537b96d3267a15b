"""Restores the runs of pods from their statuses.

A kubelet forgets pods in which nothing is due, and a cluster may be restarted.
"""

from collections.abc import Callable

from msgspec.structs import replace

from controller_manager.api.json_objects import JSON

from .commands import FOREVER
from .containers import FIRST_BACKOFF, LONGEST_BACKOFF, ContainerRun, Moment, Step
from .pods import PodRun, container_of, full_name, specs_of, statuses_of
from .probes import ProbeKind
from .programs import Program

At = Callable[[str], float]
"""Converts a time of the API to seconds of the monotonic clock."""


Recall = Callable[[JSON, str], Program | None]
"""Returns the program that a container of a pod has found at its start, if any."""


def adopted_run(
    pod: JSON, now: Moment, at: At, grace_scale: float, recall: Recall
) -> PodRun:
    """Return the run of a pod from its status; `at` converts its times."""
    statuses, containers = statuses_of(pod), []
    for spec, role in specs_of(pod):
        new = container_of(pod, spec, role, now.seconds, grace_scale)
        known = _recalled(new, pod, recall)
        containers.append(_adopted(known, statuses.get(spec["name"]), now, at))
    return PodRun(
        full_name(pod),
        now.text,
        pod["spec"]["restartPolicy"],
        tuple(containers),
        annotations=pod["metadata"].get("annotations"),
    )


def with_annotations_of(
    run: PodRun, pod: JSON, now: Moment, grace_scale: float, recall: Recall
) -> PodRun:
    """Return the pod with its present annotations; past events stay."""
    annotations = pod["metadata"].get("annotations")
    if annotations == run.annotations:
        return run
    containers = []
    for old, (spec, role) in zip(run.containers, specs_of(pod), strict=True):
        new = container_of(pod, spec, role, now.seconds, grace_scale)
        containers.append(_with_fate_of(old, _recalled(new, pod, recall), now))
    return replace(run, containers=tuple(containers), annotations=annotations)


def _recalled(container: ContainerRun, pod: JSON, recall: Recall) -> ContainerRun:
    """Return a container with the program that it has found at its start."""
    if isinstance(container.program, Program) and container.program.depends:
        known = recall(pod, container.spec["name"])
        return replace(container, program=known or container.program)
    return container


def _with_fate_of(old: ContainerRun, new: ContainerRun, now: Moment) -> ContainerRun:
    """Return a container with the future of another one."""
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
    """Return a container in the state of a status, with the image that it has there."""
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
    """Return a container that has run since the time in its status."""
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
    """Return a container that starts again after its backoff."""
    restarts = max(0, container.restarts - 1)
    delay = min(FIRST_BACKOFF * 2.0 ** min(restarts, 5), LONGEST_BACKOFF)
    return replace(
        container,
        step=Step.BACKING_OFF,
        due=now.seconds + delay,
        backoff=min(delay * 2, LONGEST_BACKOFF),
    )
