"""The probes of one container: their times and their results.

Upstream: pkg/kubelet/prober (worker.go, prober.go). The kubelets contact no container:
a probe succeeds unless an annotation says that it fails at that time, or a file is
missing that it needs. So they skip probes with the same result as before.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from controller_manager.api.json_objects import JSON

from .commands import FOREVER
from .node_status import pod_address
from .programs import (
    FAILING_LIVENESS,
    FAILING_READINESS,
    FAILING_STARTUP,
    Periods,
    find,
    image_name,
    periods_of,
)


class ProbeKind(StrEnum):
    """The types of probes, in the spelling of kubelets' messages."""

    STARTUP = "Startup"
    LIVENESS = "Liveness"
    READINESS = "Readiness"


_SETTINGS: Final = (
    (ProbeKind.STARTUP, "startupProbe", FAILING_STARTUP),
    (ProbeKind.LIVENESS, "livenessProbe", FAILING_LIVENESS),
    (ProbeKind.READINESS, "readinessProbe", FAILING_READINESS),
)
WEB_ROOTS: Final = {"httpd": "/usr/local/apache2/htdocs"}
"""The directories of the pages that servers in well-known images have."""

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
    failing: Periods
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
        found = find(pod, annotation, container["name"], shared=shared)
        if spec is None and found is None:
            continue
        failing = Periods() if found is None else periods_of(*found)
        yield _probe(pod, container, kind, spec or {}, failing)


def _probe(
    pod: JSON, container: JSON, kind: ProbeKind, spec: JSON, failing: Periods
) -> Probe:
    grace = spec.get("terminationGracePeriodSeconds")
    page = (spec.get("httpGet") or {}).get("path", "")
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
        page=page if image_name(container) in WEB_ROOTS else "",
    )


def _output(pod: JSON, spec: JSON) -> str:
    """Return the kubelet's message about a failed probe."""
    if "httpGet" in spec:
        return "HTTP probe failed with statuscode: 503"
    if "grpc" in spec:
        return 'service unhealthy (responded with "NOT_SERVING")'
    if "tcpSocket" in spec:
        address = pod.get("status", {}).get("podIP") or pod_address(pod)
        port = spec["tcpSocket"].get("port", "")
        return f"dial tcp {address}:{port}: connect: connection refused"
    return "an annotation says so"
