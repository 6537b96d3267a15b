"""One container on its kubelet: it starts, is probed, ends, and is started again."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from controller_manager.api.json_objects import JSON
from controller_manager.options.durations import format_duration

from . import programs
from .commands import FOREVER
from .events import Note, normal, warning
from .node_status import pod_address
from .programs import (
    Periods,
    command_of,
    periods_of,
)

# The probes of one container: their times and their results.


class ProbeKind(StrEnum):
    """The types of probes, in the spelling of kubelets' messages."""

    STARTUP = "Startup"
    LIVENESS = "Liveness"
    READINESS = "Readiness"


_SETTINGS: Final = (
    (ProbeKind.STARTUP, "startupProbe", programs.FAILING_STARTUP),
    (ProbeKind.LIVENESS, "livenessProbe", programs.FAILING_LIVENESS),
    (ProbeKind.READINESS, "readinessProbe", programs.FAILING_READINESS),
)
_ROOTS: Final = {"httpd-foreground": "/usr/local/apache2/htdocs", "test-webserver": ""}
"""The directories of the pages of well-known servers, by the ends of their commands.

The second one is a command of agnhost, which lists directories.
"""

_PORTS: Final = {"grpc-health-checking": 5000, "liveness": 8080, "test-webserver": 80}
"""The ports of the servers that agnhost has, by its first argument."""

JUST_NOW: Final = 0.001
"""A timer may fire early by less than this, in seconds."""


class Outcome(Struct, frozen=True):
    """The result of a probe by the files of its container.

    `output` is the message of a failure. `changes` is the time of the next change of a
    file, on the monotonic clock.
    """

    passes: bool = True
    output: str = ""
    changes: float | None = None


class Probe(Struct, frozen=True):
    """A probe, the periods of its failures, and its results; times are in seconds.

    `passes` is the result that counts. `streak` is the number of equal results `last`
    in a row. `due` is the time of the next probe, on the monotonic clock; `None` if the
    result will not change. `grace` is the grace period of a container that fails the
    probe, `None` for that of its pod. The probe runs a `command`, or asks for a `page`.
    """

    kind: ProbeKind
    delay: float
    period: float
    successes: int
    failures: int
    failing: programs.Periods
    output: str
    grace: float | None
    passes: bool
    command: tuple[str, ...] = ()
    page: str = ""
    last: bool | None = None
    streak: int = 0
    due: float | None = None

    def started(self, began: float, now: float) -> "Probe":
        """Return the probe with the first check of a container that has started."""
        return replace(self, due=max(began + self.delay, now))

    def checked(self, began: float, now: float, outcome: Outcome) -> "Probe":
        """Return the probe after a check of a container that began at `began`."""
        may_pass = not self.failing.include(now - began + JUST_NOW)
        found = may_pass and outcome.passes
        streak = self.streak + 1 if found is self.last else 1
        needed = self.successes if found else self.failures
        passes = found if streak >= needed else self.passes
        checked = replace(self, last=found, streak=streak, passes=passes)
        if may_pass and not found:
            checked = replace(checked, output=outcome.output)
        times = (checked.next_check(began, now), outcome.changes)
        if self.kind is ProbeKind.STARTUP and passes:
            times = (None, None)  # no further check
        due = min((each for each in times if each is not None), default=None)
        return replace(checked, due=due)

    def resumed(self, began: float, now: float, *, passes: bool) -> "Probe":
        """Return the probe for a container that runs already, with its result."""
        if not passes:
            return replace(self, passes=False, due=max(began + self.delay, now))
        resumed = replace(self, passes=True, last=True, streak=self.successes)
        due = resumed.next_check(began, now)
        if self.kind is not ProbeKind.STARTUP and (self.command or self.page):
            due = min(due or FOREVER, now + self.period)  # a file may have changed
        return replace(resumed, due=due)

    def reset(self) -> "Probe":
        """Return the probe in its state before the first check."""
        passes = self.kind is ProbeKind.LIVENESS
        return replace(self, passes=passes, last=None, streak=0, due=None)

    @property
    def ends_container(self) -> bool:
        """True if the kubelet ends the container because of the result."""
        if self.kind is ProbeKind.READINESS or self.last is not False:
            return False
        return self.streak >= self.failures

    @property
    def failure(self) -> str:
        """The message of the event ``Unhealthy``."""
        return f"{self.kind} probe failed: {self.output}"

    def next_check(self, began: float, now: float) -> float | None:
        """Return the time of the next check whose result may differ."""
        if not self.last or not self.passes:
            return now + self.period
        if self.kind is ProbeKind.STARTUP:
            return None  # no further check
        after = self.failing.following(now - began + JUST_NOW, self.period)
        return None if after is None else began + after - JUST_NOW


def probes_of(pod: JSON, container: JSON, *, shared: bool) -> tuple[Probe, ...]:
    """Return the probes of a container, those first that others wait for.

    Annotations hold for it without its name only if they are `shared`. Raises
    AnnotationError.
    """
    return tuple(_probes(pod, container, shared=shared))


def _probes(pod: JSON, container: JSON, *, shared: bool) -> Iterator[Probe]:
    for kind, field, annotation in _SETTINGS:
        spec = container.get(field)
        found = programs.find(pod, annotation, container["name"], shared=shared)
        if spec is None and found is None:
            continue
        failing = (
            periods_of(*found) if found else _failures_of_agnhost(container, spec or {})
        )
        yield _probe(pod, container, kind, spec or {}, failing)


def _probe(
    pod: JSON, container: JSON, kind: ProbeKind, spec: JSON, failing: programs.Periods
) -> Probe:
    grace = spec.get("terminationGracePeriodSeconds")
    return Probe(
        kind=kind,
        delay=float(spec.get("initialDelaySeconds", 0)),
        period=float(spec.get("periodSeconds") or 10),
        successes=spec.get("successThreshold") or 1,
        failures=spec.get("failureThreshold") or 3,
        failing=failing,
        output=_output(pod, spec),
        grace=None if grace is None else float(grace),
        passes=kind is ProbeKind.LIVENESS,
        command=tuple((spec.get("exec") or {}).get("command") or ()),
        page=_page(container, spec),
    )


def _failures_of_agnhost(container: JSON, spec: JSON) -> Periods:
    """Return the times at which a server of agnhost fails a probe.

    It has one port, and the one for tests of liveness is healthy for 10 seconds.
    """
    request = spec.get("httpGet") or spec.get("grpc") or {}
    port, (program, *words) = request.get("port"), [*command_of(container), ""]
    served = _PORTS.get(words[0]) if program.endswith("agnhost") else None
    if served is None or len(words) > 2 or not isinstance(port, int):
        return Periods()
    ends = words[0] == "liveness" and request.get("path") == "/healthz"
    return periods_of("", "always" if port != served else "10-" if ends else "never")


def _page(container: JSON, spec: JSON) -> str:
    """Return the file for which a probe asks a known server, empty for none."""
    root = _ROOTS.get("".join(command_of(container)[-1:]))
    path = str((spec.get("httpGet") or {}).get("path") or "")
    if root is None or not path:
        return ""
    return f"{root}{path}index.html" if root and path.endswith("/") else root + path


def _output(pod: JSON, spec: JSON) -> str:
    if "httpGet" in spec:
        return "HTTP probe failed with statuscode: 503"
    if "grpc" in spec:
        return 'service unhealthy (responded with "NOT_SERVING")'
    if "tcpSocket" in spec:
        address = pod.get("status", {}).get("podIP") or pod_address(pod)
        port = spec["tcpSocket"].get("port", "")
        return f"dial tcp {address}:{port}: connect: connection refused"
    return "an annotation says so"


# One container on its kubelet: it starts, ends, and is started again.

KILLED: Final = 137
"""The exit code of a container that SIGKILL has ended: 128 + 9."""

FIRST_BACKOFF: Final = 10.0
LONGEST_BACKOFF: Final = 300.0
_STABLE: Final = 600.0
"""After so many seconds of a run, the next restart begins a new backoff."""


class Step(StrEnum):
    """The state of a container."""

    NEW = "new"
    """The container has not started, and waits for its turn."""
    STUCK = "stuck"
    """The container cannot start."""
    RUNNING = "running"
    BACKING_OFF = "backing-off"
    """The container has ended, and will start again."""
    ENDED = "ended"
    """The container has ended and will not start again."""


class Moment(Struct, frozen=True):
    """A time in seconds of the monotonic clock, and in the form of the API."""

    seconds: float
    text: str


class Refused(Struct, frozen=True):
    """The reason why a container cannot start now, and the kubelet's event.

    `requeue_after` is the number of seconds until the kubelet tries again, `None` if it
    waits for a change.
    """

    reason: str
    message: str
    notes: tuple[Note, ...]
    requeue_after: float | None = None


class Machine(Protocol):
    """The parts of a node that the start of a container needs."""

    delay: float
    """The seconds that the pull of an image takes."""

    def obtain(self, container: "ContainerRun", now: Moment) -> Refused | list[Note]:
        """Return the events before a container starts, or the reason why it cannot."""

    def program(self, container: "ContainerRun", now: Moment) -> programs.Program:
        """Return the program of a container that starts now."""

    def outcome(self, container: "ContainerRun", probe: Probe, now: Moment) -> Outcome:
        """Return the result of a probe, by the files of a container."""


class ContainerRun(Struct, frozen=True):
    """A container's spec, its state in the form of the API, and its next step.

    `due` is the time of its next start, end or restart, in seconds of the monotonic
    clock; `None` if it has none. `began` is the time of its start. `backoff` is the
    number of seconds before its next restart. `grace` is the number of seconds after
    which SIGKILL follows SIGTERM. `stop_code` is the exit code of a container that got
    SIGTERM. `notes` has the events since its kubelet wrote its last status.
    """

    spec: JSON
    role: programs.Role
    program: programs.Program | programs.AnnotationError
    step: Step = Step.NEW
    due: float | None = None
    began: float = 0.0
    state: JSON = {}
    last: JSON = {}
    restarts: int = 0
    backoff: float = 0.0
    pull_backoff: float = 0.0
    pull_failed_at: float | None = None
    is_pulling: bool = False
    grace: float = 30.0
    probes: tuple[Probe, ...] = ()
    stop_code: int | None = None
    notes: tuple[Note, ...] = ()

    @property
    def code(self) -> int:
        """The exit code of a container that has ended."""
        return int(self.state["terminated"]["exitCode"])

    @property
    def is_started(self) -> bool:
        """True if the container runs and its startup probe has succeeded."""
        return self.step is Step.RUNNING and self._passes(ProbeKind.STARTUP)

    @property
    def is_ready(self) -> bool:
        """True if the container serves, or has succeeded as an init container."""
        if self.role is programs.Role.INIT:
            return self.step is Step.ENDED and self.code == 0
        return self.is_started and self._passes(ProbeKind.READINESS)

    @property
    def next(self) -> float | None:
        """The time of its next step or probe, on the monotonic clock."""
        if not self.probes or self.step is not Step.RUNNING:
            return self.due
        times = [each.due for each in self.probes]
        return min(
            (each for each in (self.due, *times) if each is not None), default=None
        )

    def _passes(self, kind: ProbeKind) -> bool:
        if not self.probes:
            return True
        return all(each.passes for each in self.probes if each.kind is kind)

    def noted(self, *notes: Note) -> "ContainerRun":
        """Return the container with more events to report."""
        return replace(self, notes=(*self.notes, *notes))

    def started(self, now: Moment, machine: Machine) -> "ContainerRun":
        """Return the container running, or waiting with the reason."""
        found = machine.obtain(self, now)
        if isinstance(found, Refused):
            return self._refused(found, now)
        program = machine.program(self, now)
        seconds = program.seconds
        running = replace(
            self,
            program=program,
            step=Step.RUNNING,
            state={"running": {"startedAt": now.text}},
            due=now.seconds + seconds if seconds != FOREVER else None,
            began=now.seconds,
            stop_code=None,
            pull_failed_at=None,
            pull_backoff=0.0,
            is_pulling=False,
            probes=tuple(each.reset() for each in self.probes),
        )
        created = normal("Created", "Container created")
        started = normal("Started", "Container started")
        return running.noted(*found, created, started).with_first_probes(now)

    def _refused(self, found: Refused, now: Moment) -> "ContainerRun":
        waiting = {"reason": found.reason, "message": found.message}
        state = {"waiting": waiting}
        due = None if found.requeue_after is None else now.seconds + found.requeue_after
        if self.step is Step.STUCK and self.state == state:
            return replace(self, due=due)
        stuck = replace(self, step=Step.STUCK, state=state, due=due, is_pulling=False)
        if found.reason == "ErrImagePull":
            following = min(self.pull_backoff * 2, LONGEST_BACKOFF) or FIRST_BACKOFF
            stuck = replace(stuck, pull_failed_at=now.seconds, pull_backoff=following)
        return stuck.noted(*found.notes)

    def replaced(self, now: Moment, image: str, machine: Machine) -> "ContainerRun":
        """Return the container with another image, which is pulled first."""
        new = replace(
            self,
            spec={**self.spec, "image": image},
            pull_failed_at=None,
            pull_backoff=0.0,
        )
        if self.step is Step.STUCK:
            return replace(
                new, step=Step.NEW, state={}, due=now.seconds + machine.delay
            )
        if self.step is Step.RUNNING:
            name = self.spec["name"]
            why = f"Container {name} definition changed, will be restarted"
            return new.killed_and_started(now, why, machine)
        return new

    def resized(
        self, spec: JSON, in_use: JSON | None, now: Moment, machine: Machine
    ) -> "ContainerRun":
        """Return the container with the resources of a spec; it had those `in_use`."""
        wanted = spec.get("resources") or {}
        new = self
        if self.spec.get("resources") != wanted:
            new = replace(self, spec={**self.spec, "resources": wanted})
        if self.step is not Step.RUNNING or in_use in (None, wanted):
            return new
        restarting = {
            each["resourceName"]
            for each in spec.get("resizePolicy") or ()
            if each.get("restartPolicy") == "RestartContainer"
        }
        if not restarting & _different(in_use or {}, wanted):
            return new
        why = f"Container {spec['name']} resize requires restart"
        return new.killed_and_started(now, why, machine)

    def killed_and_started(
        self, now: Moment, why: str, machine: Machine
    ) -> "ContainerRun":
        """Return a container that runs after it was killed and started again."""
        ended = self.noted(normal("Killing", why)).ended(now, KILLED)
        return replace(ended, last=ended.state).started_again(now, machine)

    def started_again(self, now: Moment, machine: Machine) -> "ContainerRun":
        """Return the container after one more start."""
        return replace(self, restarts=self.restarts + 1).started(now, machine)

    def probed(self, now: Moment, machine: Machine) -> "ContainerRun":
        """Return the container after the probes that are due now."""
        run = self
        for number, probe in enumerate(self.probes):
            if probe.due is None or probe.due > now.seconds + JUST_NOW:
                continue
            outcome = machine.outcome(self, probe, now)
            made = probe.checked(self.began, now.seconds, outcome)
            probes = (*run.probes[:number], made, *run.probes[number + 1 :])
            run = replace(run, probes=probes)
            if not made.last:
                run = run.noted(warning("Unhealthy", made.failure))
            if made.ends_container:
                return _failing(run, made, now)
        return run.with_first_probes(now)

    def with_first_probes(self, now: Moment) -> "ContainerRun":
        """Return the container after the start of all probes that may begin."""
        is_started = self._passes(ProbeKind.STARTUP)
        probes = tuple(
            each.started(self.began, now.seconds)
            if each.last is None
            and each.due is None
            and (is_started or each.kind is ProbeKind.STARTUP)
            else each
            for each in self.probes
        )
        return self if probes == self.probes else replace(self, probes=probes)

    def stopped(self, now: Moment, message: str, grace: float) -> "ContainerRun":
        """Return the container after its ``preStop`` hook and SIGTERM."""
        if self.step is not Step.RUNNING or self.stop_code is not None:
            return self
        termination, ended = FOREVER, 0
        if isinstance(self.program, programs.Program):
            termination = self.program.termination
            ended = self.program.termination_code
        hook = (self.spec.get("lifecycle") or {}).get("preStop") or {}
        sleeps = float((hook.get("sleep") or {}).get("seconds") or 0)
        ends = sleeps + termination
        due, code = now.seconds + min(ends, grace), ended if ends < grace else KILLED
        if self.due is not None and self.due <= due:
            due, code = self.due, self._code()
        probes = tuple(replace(each, due=None) for each in self.probes)
        killing = normal("Killing", message)
        return replace(self, due=due, stop_code=code, probes=probes).noted(killing)

    def _code(self) -> int:
        return (
            self.program.code(self.restarts)
            if isinstance(self.program, programs.Program)
            else 0
        )

    def ended_by_itself(self, now: Moment) -> "ContainerRun":
        """Return the ended container, after its time has come."""
        return self.ended(
            now, self._code() if self.stop_code is None else self.stop_code
        )

    def ended(self, now: Moment, code: int) -> "ContainerRun":
        """Return the container, which ran, ended for good."""
        reason = "Error" if code else "Completed"
        if code == programs.OUT_OF_MEMORY:
            code, reason = KILLED, "OOMKilled"
        terminated = {
            "exitCode": code,
            "reason": reason,
            "startedAt": self.state["running"]["startedAt"],
            "finishedAt": now.text,
        }
        state = {"terminated": terminated}
        return replace(self, step=Step.ENDED, state=state, due=None)

    def restarted(self, now: Moment, pod: str, machine: Machine) -> "ContainerRun":
        """Return an ended container that starts again, maybe after a backoff.

        As in a kubelet, the first restart comes at once, the next ones after 10 s, 20 s
        and so on, up to 5 minutes. `pod` is the name that kubelets give to the pod in
        messages.
        """
        stable = now.seconds - self.began >= _STABLE
        delay = 0.0 if stable else self.backoff
        following = min(delay * 2, LONGEST_BACKOFF) or FIRST_BACKOFF
        ended = replace(self, last=self.state, backoff=following)
        if not delay:
            return ended.started_again(now, machine)
        name = self.spec["name"]
        message = (
            f"back-off {format_duration(delay)} restarting failed "
            f"container={name} pod={pod}"
        )
        waiting = {"reason": "CrashLoopBackOff", "message": message}
        backing_off = replace(
            ended,
            step=Step.BACKING_OFF,
            state={"waiting": waiting},
            due=now.seconds + delay,
        )
        message = f"Back-off restarting failed container {name} in pod {pod}"
        return backing_off.noted(warning("BackOff", message))


def _different(old: JSON, new: JSON) -> set[str]:
    return {
        resource
        for name in ("requests", "limits")
        for one, other in ((old.get(name) or {}, new.get(name) or {}),)
        for resource in one.keys() | other.keys()
        if one.get(resource) != other.get(resource)
    }


def _failing(run: ContainerRun, probe: Probe, now: Moment) -> ContainerRun:
    message = (
        f"Container {run.spec['name']} failed {probe.kind.lower()} probe, will be "
        "restarted"
    )
    grace = run.grace if probe.grace is None else probe.grace
    return run.stopped(now, message, grace)
