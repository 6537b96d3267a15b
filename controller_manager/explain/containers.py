"""Explains containers of a pod that do not start, do not run, or are not ready."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from msgspec.structs import replace

from controller_manager.api.json_objects import JSON, object_at, objects_at
from controller_manager.api.scalars import parse_time

from .cause import Cause, Item, State, number_at, symptom, text_at
from .view import Event, View, events_of

_LONGEST: Final = 300
"""Characters of a message that are shown."""


class Container:
    """A container: its pod, its spec, and its status."""

    def __init__(self, pod: Item, kind: str, spec: JSON, status: JSON) -> None:
        self.pod = pod
        self.spec = spec
        self.status = status
        self.name = text_at(spec, "name")
        self.field = f"status.{kind}[{self.name}]"
        state = object_at(status, "state")
        self.waiting = object_at(state, "waiting")
        self.running = object_at(state, "running")
        self.terminated = object_at(state, "terminated")
        self.last = object_at(object_at(status, "lastState"), "terminated")
        self.restarts = number_at(status, "restartCount")

    @property
    def is_sidecar(self) -> bool:
        """Tell whether it is an init container that runs on."""
        return self.spec.get("restartPolicy") == "Always"

    @property
    def has_started(self) -> bool:
        """Tell whether its startup probe has succeeded."""
        return bool(self.status.get("started"))

    def cause(self, code: str, state: State, what: str, **more: str) -> Cause:
        """Return a cause that the state of the container shows, with more parts."""
        given = {"field": f"{self.field}.state", **more}
        return Cause(
            code=code,
            state=state,
            what=what,
            object=self.pod.reference,
            **given,  # type: ignore[arg-type]
        )


def short_message(text: str) -> str:
    """Return a message in one line, without its end if it is very long."""
    line = " ".join(text.split()).rstrip(".")
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."


_VOLUMES: Final = ("FailedAttachVolume", "FailedMount", "FailedMapVolume")
_NOT_ATTACHED: Final = "FailedAttachVolume"
_ATTACHED: Final = "SuccessfulAttachVolume"
_PULLING_NOW: Final = "Pulling"
_LATER: Final = (_PULLING_NOW, "Pulled", "Created", "Started")
"""The reasons of events that follow once the sandbox and the volumes are made."""

_SANDBOX: Final = "FailedCreatePodSandBox"
_PATIENCE: Final = timedelta(minutes=10)
"""The time in which a kubelet starts a container, or records an event."""


async def explain_start(view: View, each: Container) -> Cause:
    """Return the cause for a container that its kubelet has not started yet."""
    found = await events_of(view, each.pod, (*_VOLUMES, _SANDBOX, *_LATER, _ATTACHED))
    failed = next((one for one in found if _holds(one, found)), None)
    if failed is None:
        return _no_event(
            view, each, is_pulling=bool(found) and found[0].reason == _PULLING_NOW
        )
    is_sandbox = failed.reason == _SANDBOX
    part = "sandbox" if is_sandbox else "volumes"
    return each.cause(
        "Sandbox" if is_sandbox else "VolumeMount",
        State.STUCK,
        f"the {part} of the pod cannot be made: {short_message(failed.message)}",
        since=failed.at,
        remedy="look at the network plugin and the runtime of the node"
        if is_sandbox
        else "correct the volume of the pod, or create the object that it needs",
    )


def _holds(failed: Event, found: Sequence[Event]) -> bool:
    """Tell whether an event is a failure that no later event shows to be over."""
    if failed.reason not in (*_VOLUMES, _SANDBOX):
        return False
    over = {*_LATER, _ATTACHED} if failed.reason == _NOT_ATTACHED else set(_LATER)
    return not any(one.at > failed.at and one.reason in over for one in found)


def _no_event(view: View, each: Container, *, is_pulling: bool) -> Cause:
    """Return the cause for a container that does not start, and no event says why."""
    scheduled = each.pod.condition("PodScheduled") or {}
    since = text_at(scheduled, "lastTransitionTime") or each.pod.created_at
    is_late = view.age(since) > _PATIENCE and not is_pulling
    node = text_at(each.pod.spec, "nodeName")
    return each.cause(
        "Starting",
        State.STUCK if is_late else State.PROGRESSING,
        f"the kubelet pulls the image of the container {each.name}"
        if is_pulling
        else f"the kubelet starts the container {each.name}",
        since=each.pod.created_at,
        remedy=f"look at the log of the kubelet of {node}" if is_late else "",
    )


_PULLING: Final = frozenset(
    (
        "ErrImagePull",
        "ErrImageNeverPull",
        "ImageInspectError",
        "ImagePullBackOff",
        "InvalidImageName",
        "RegistryUnavailable",
        "SignatureValidationFailed",
    )
)
_CONFIG: Final = frozenset(
    (
        "CreateContainerConfigError",
        "CreateContainerError",
        "PostStartHookError",
        "PreCreateHookError",
        "PreStartHookError",
        "RunContainerError",
        "StartError",
    )
)
_KINDS: Final = {
    "Liveness": "livenessProbe",
    "Readiness": "readinessProbe",
    "Startup": "startupProbe",
}
_WARM_UP: Final = timedelta(seconds=60)
"""The time in which a new container may fail its readiness probe."""

_MANY_RESTARTS: Final = 3
_GOOD_RUN: Final = timedelta(minutes=10)
"""The time of a run after which a kubelet forgets the crashes before it."""


async def explain_containers(view: View, pod: Item) -> tuple[Cause, ...]:
    """Return the causes for which the containers of a pod are not ready.

    Init containers run one after the other: only the first that has not ended, and is
    not a running sidecar, is a cause.
    """
    for each in _containers(pod, "initContainers", "initContainerStatuses"):
        if each.terminated and number_at(each.terminated, "exitCode") == 0:
            continue
        if each.is_sidecar and each.has_started:
            continue
        return (await _explain(view, each, is_init=True),)
    return tuple(
        [
            await _explain(view, each)
            for each in _containers(pod, "containers", "containerStatuses")
            if not each.status.get("ready") and not _is_done(each)
        ]
    )


def has_done_container(pod: Item) -> bool:
    """Tell whether a container of a pod has ended well, and is not restarted.

    Such a pod runs to its end; it is not ready any more, and need not be.
    """
    return any(map(_is_done, _containers(pod, "containers", "containerStatuses")))


def _is_done(each: Container) -> bool:
    ended_well = bool(each.terminated) and number_at(each.terminated, "exitCode") == 0
    return ended_well and each.pod.spec.get("restartPolicy") in ("Never", "OnFailure")


def _containers(pod: Item, specs: str, statuses: str) -> Sequence[Container]:
    by_name = {text_at(each, "name"): each for each in objects_at(pod.status, statuses)}
    return [
        Container(pod, statuses, each, by_name.get(text_at(each, "name"), {}))
        for each in objects_at(pod.spec, specs)
    ]


async def _explain(view: View, each: Container, *, is_init: bool = False) -> Cause:
    reason = text_at(each.waiting, "reason")
    if reason in _PULLING:
        return await _pulling(view, each, reason)
    if reason == "CrashLoopBackOff":
        return await _crashing(view, each, each.last)
    if reason in _CONFIG:
        message = text_at(each.waiting, "message") or reason
        return each.cause(
            "ContainerConfig",
            State.STUCK,
            f"the container {each.name} cannot be created: {short_message(message)}",
            since=each.pod.created_at,
            remedy="correct the container, or create the object that it refers to",
        )
    if each.terminated:
        return await _crashing(view, each, each.terminated)
    if each.running:
        return await _running(view, each, is_init=is_init)
    return await explain_start(view, each)


async def _pulling(view: View, each: Container, reason: str) -> Cause:
    image = text_at(each.spec, "image")
    failed = await events_of(view, each.pod, ("Failed",))
    about = [one for one in failed if f'"{image}"' in one.message]
    why = next((_pull_error(one.message) for one in about), "")
    if reason == "InvalidImageName":
        what = f"the name of the image {image!a} is not valid"
    elif reason == "ErrImageNeverPull":
        what = f"the image {image} is not on the node, and imagePullPolicy is Never"
    else:
        what = f"the image {image} cannot be pulled{': ' if why else ''}{why}"
    return each.cause(
        "ImagePull",
        State.STUCK,
        f"container {each.name}: {what}",
        field=f"{each.field}.state.waiting",
        since=min((one.at for one in about), default=each.pod.created_at),
        remedy="correct the name of the image, push it, or give the pod a pull secret",
    )


def _pull_error(message: str) -> str:
    """Return the error in ``Failed to pull image "x": error``, empty if it has none."""
    head, _, error = message.partition('": ')
    return short_message(error) if head.startswith("Failed to pull image") else ""


async def _crashing(view: View, each: Container, end: JSON) -> Cause:
    """Return the cause for a container that has ended, and is restarted."""
    code, reason = number_at(end, "exitCode"), text_at(end, "reason")
    message = text_at(end, "message")
    known = f" ({reason})" if reason and reason not in ("Error", "Completed") else ""
    times = f", {each.restarts} restarts so far" if each.restarts else ""
    what = f"the container {each.name} ended with exit code {code}{known}{times}"
    if message:
        what += f": {short_message(message)}"
    log = f"kubectl logs -p -n {each.pod.namespace} {each.pod.name} -c {each.name}"
    remedy = f"read its last log: {log}"
    if reason == "OOMKilled":
        remedy = "raise the container's limit of memory, or let it use less"
    cause = each.cause(
        "CrashLoop",
        State.STUCK if each.restarts else State.PROGRESSING,
        what,
        field=each.field
        + (".state" if end is each.terminated else ".lastState")
        + ".terminated",
        since=text_at(end, "finishedAt"),
        remedy=remedy,
    )
    failed = await _failed_probes(view, each, text_at(end, "startedAt"))
    killing = [one for one in failed if not one.message.startswith("Readiness")]
    if killing and reason != "OOMKilled":
        return symptom(replace(cause, remedy=""), [_probe(each, killing[0])])
    return cause


async def _running(view: View, each: Container, *, is_init: bool) -> Cause:
    """Return the cause for a container that runs and is not ready."""
    since = text_at(each.running, "startedAt")
    if is_init and not each.is_sidecar:
        return each.cause(
            "InitContainer",
            State.PROGRESSING,
            f"the init container {each.name} runs; the others wait for its end",
            since=since,
        )
    failed = await _failed_probes(view, each, since)
    if failed:
        # A program that starts cannot answer at once.
        allowed = _allowed(each, _WARM_UP if each.has_started else timedelta())
        is_late = each.restarts > 0 or view.age(since) >= allowed
        return _probe(each, failed[0], is_late=is_late)
    if each.restarts >= _MANY_RESTARTS and _wasshort_message(each.last):
        return await _crashing(view, each, each.last)
    is_new = view.age(since) < _allowed(each)
    name = _awaited(each)
    return each.cause(
        "NotReady",
        State.PROGRESSING if is_new else State.STUCK,
        f"the container {each.name} runs, and its {name} has not succeeded yet",
        since=since,
        remedy="" if is_new else "look at the log of the container, and at its probe",
    )


def _awaited(each: Container) -> str:
    """Return the name of the probe that has not succeeded yet."""
    return "readinessProbe" if each.has_started else "startupProbe"


def _allowed(each: Container, least: timedelta = timedelta()) -> timedelta:
    """Return the time in which the probe should succeed, `least` at least."""
    probe = object_at(each.spec, _awaited(each))
    period, failures = (
        number_at(probe, name, default)
        for name, default in (("periodSeconds", 10), ("failureThreshold", 3))
    )
    first = number_at(probe, "initialDelaySeconds")
    return max(timedelta(seconds=first + period * failures), least)


def _wasshort_message(run: JSON) -> bool:
    """Tell whether a run of a container ended before the kubelet called it a good one.

    A container that ran for longer does not crash again and again.
    """
    began, ended = text_at(run, "startedAt"), text_at(run, "finishedAt")
    if not began or not ended:
        return bool(run)
    return parse_time(ended) - parse_time(began) < _GOOD_RUN


async def _failed_probes(view: View, each: Container, began: str) -> Sequence[Event]:
    """Return the failures of a container's probes since a run of it began.

    Events stay for an hour; those of the runs before say nothing about this one.
    """
    found = await events_of(view, each.pod, ("Unhealthy",))
    names = (f"{{{each.name}}}", "")
    return [one for one in found if one.field.endswith(names) and one.at >= began]


def _probe(each: Container, failed: Event, *, is_late: bool = True) -> Cause:
    """Return the cause for a probe that fails, stuck if it should succeed by now."""
    kind = failed.message.partition(" ")[0]
    name = _KINDS.get(kind, "readinessProbe")
    is_stuck = is_late or kind == "Liveness"
    return each.cause(
        "ProbeFailing",
        State.STUCK if is_stuck else State.PROGRESSING,
        f"container {each.name}: {short_message(failed.message)}",
        field=f"spec.containers[{each.name}].{name}",
        since=failed.at,
        remedy=f"correct the program, or its {name}: path, port, timeout, threshold"
        if is_stuck
        else "",
    )
