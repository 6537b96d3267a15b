"""The programs of a pod's containers: what they do, and for how long.

No container runs here. An annotation of the pod says what a container does; without
one, its command does, as far as it is known (`commands`). An annotation applies to all
containers except init containers. With the name of a container at its end
(``devcluster/exit-code.NAME``) it applies to that container. The tables in
docs/devcluster.md show annotations and commands.
"""

import math
import re
from collections.abc import Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from controller_manager.api.json_objects import JSON

from .commands import FOREVER, Run, Surroundings, Write
from .shell import run_of

# The annotations with which a user decides what a pod does.

PREFIX: Final = "devcluster/"
RUN_SECONDS: Final = "devcluster/run-seconds"
EXIT_CODE: Final = "devcluster/exit-code"
FAILING_INDEXES: Final = "devcluster/failing-indexes"
FAILING_STARTUP: Final = "devcluster/failing-startup"
FAILING_LIVENESS: Final = "devcluster/failing-liveness"
FAILING_READINESS: Final = "devcluster/failing-readiness"
FAILING_SANDBOX: Final = "devcluster/failing-sandbox"
TERMINATION_SECONDS: Final = "devcluster/termination-seconds"
PULL_SECONDS: Final = "devcluster/pull-seconds"
LOGS: Final = "devcluster/logs"
EXEC: Final = "devcluster/exec"

_LONGEST: Final = 100
"""The most characters of a wrong annotation in a message."""

_NUMBER: Final = r"(\d{1,9}(?:\.\d{1,3})?)"
_PERIOD: Final = re.compile(rf"{_NUMBER}?-{_NUMBER}?")
_MOST_PERIODS: Final = 100
_SECONDS: Final = re.compile(r"\d{1,12}(?:\.\d{1,6})?")


class AnnotationError(Exception):
    """An annotation cannot be understood; the message names it."""

    @classmethod
    def of(cls, key: str, text: str, expected: str) -> "AnnotationError":
        """Return the error about an annotation that must be `expected`."""
        shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
        return cls(f"annotation {key}: must be {expected}, it is {shown!r}")


class Periods(Struct, frozen=True):
    """Periods of time: pairs of a first second, and the second after the last."""

    pairs: tuple[tuple[float, float], ...] = ()

    def include(self, second: float) -> bool:
        """Tell whether a second is in one of the periods."""
        return any(first <= second < last for first, last in self.pairs)

    def following(self, second: float, step: float) -> float | None:
        """Return the first of `second` + n `step`, n > 0, that a period includes.

        Returns `None` if there is none.
        """
        found = []
        for first, last in self.pairs:
            steps = max(1, math.ceil((first - second) / step - 1e-9))
            if first <= (at := second + steps * step) < last:
                found.append(at)
        return min(found, default=None)


def find(
    pod: JSON, key: str, container: str, *, shared: bool = True
) -> tuple[str, str] | None:
    """Return the annotation for a container, as name and text, `None` without one.

    Unless it is `shared`, it must name the container.
    """
    annotations = pod["metadata"].get("annotations")
    if not annotations:
        return None
    for name in (f"{key}.{container}", key) if shared else (f"{key}.{container}",):
        if name in annotations:
            return name, str(annotations[name]).strip()
    return None


def has_any(pod: JSON) -> bool:
    """Tell whether an annotation decides what a pod does."""
    annotations = pod["metadata"].get("annotations")
    return bool(annotations) and any(each.startswith(PREFIX) for each in annotations)


def _seconds_of(key: str, text: str) -> float:
    """Return a number of seconds, or FOREVER; raises AnnotationError."""
    if text == "forever":
        return FOREVER
    if not _SECONDS.fullmatch(text):
        raise AnnotationError.of(key, text, 'a number of seconds, or "forever"')
    return float(text)


def periods_of(key: str, text: str) -> Periods:
    """Return periods of seconds, such as ``10-20,40-``; raises AnnotationError."""
    if text in ("always", "never"):
        return Periods(((0.0, FOREVER),) if text == "always" else ())
    pairs = []
    parts = text.split(",")
    for part in parts:
        match = _PERIOD.fullmatch(part.strip())
        if match is None or len(parts) > _MOST_PERIODS:
            expected = (
                '"always", "never", or at most 100 periods in seconds, as "10-20,40-"'
            )
            raise AnnotationError.of(key, text, expected)
        pairs.append((float(match[1] or 0), float(match[2] or FOREVER)))
    return Periods(tuple(pairs))


# The command of a container: its own, or the one of its image.

SHELL_IMAGES: Final = frozenset(
    (
        "almalinux",
        "alpine",
        "amazonlinux",
        "busybox",
        "centos",
        "debian",
        "fedora",
        "rockylinux",
        "ubuntu",
    )
)
"""Images without an entrypoint, whose command is a shell; it runs as root."""

_IMAGES: Final[dict[str, tuple[Sequence[str], Sequence[str]]]] = {
    **dict.fromkeys(SHELL_IMAGES, ((), ("sh",))),
    "agnhost": (("/agnhost",), ("pause",)),
    "httpd": ((), ("httpd-foreground",)),
    "pause": (("/pause",), ()),
    "pause-amd64": (("/pause",), ()),
}
"""The entrypoint and the command of images, by the last part of their names."""


def command_of(container: JSON) -> Sequence[str]:
    """Return the command line of a container, empty if only its image knows it."""
    command, args = container.get("command") or (), container.get("args") or ()
    if command:
        return [*command, *args]
    found = _IMAGES.get(image_name(container))
    if found is None:
        return ()
    entrypoint, default = found
    return [*entrypoint, *(args or default)]


def image_name(container: JSON) -> str:
    """Return the last part of the name of a container's image, such as ``httpd``."""
    name = str(container["image"]).rpartition("/")[2].partition("@")[0]
    return name.partition(":")[0]


def run_of_container(container: JSON, around: Surroundings | None = None) -> Run | None:
    """Return the run of a container's command, `None` for an unknown one.

    Without surroundings, a command that needs variables or files is unknown. A shell
    that gets no script reads the input of its container: that stays open with ``stdin``
    or ``tty``, and else ends at once.
    """
    command = command_of(container)
    if not command:
        return None
    has_input = bool(container.get("stdin") or container.get("tty"))
    if around is not None:
        return run_of(command, around, has_input=has_input)
    if any("$" in each for each in command):
        return None
    return _run_of(tuple(command), has_input=has_input)


@lru_cache(256)
def _run_of(command: tuple[str, ...], *, has_input: bool) -> Run | None:
    """Return the run of a command; the pods of a cluster share few commands."""
    return run_of(command, has_input=has_input)


# The programs of a pod's containers: the duration of their runs, and their exit
# codes.

OUT_OF_MEMORY: Final = -1
"""In place of an exit code: the kernel killed the container for its use of memory."""

_INDEX: Final = "batch.kubernetes.io/job-completion-index"
_INDEX_NUMBER: Final = re.compile("[0-9]{1,10}")
_OUT_OF_MEMORY_TEXT: Final = "OOMKilled"

_BRIEFLY: Final = 1.0
"""Seconds that a container runs which must end, if its program is unknown."""
_MAX_CODE: Final = 255


class Role(StrEnum):
    """The role of a container in its pod."""

    INIT = "init"
    SIDECAR = "sidecar"
    MAIN = "main"
    EPHEMERAL = "ephemeral"


class Program(Struct, frozen=True):
    """The program of a container, for all of its runs.

    It runs for `seconds`, which may be infinite. The first run ends with the first of
    `codes`, the second run with the second, and so on; the last code is for all later
    runs. After SIGTERM it continues for `termination` seconds and ends with
    `termination_code`, or until it is killed.
    Each run prints `lines`, and writes the files `writes`. A program that `depends` on
    variables and files is found again at each start. One that `makes_files` makes those
    that are listed, and no others.
    """

    seconds: float = FOREVER
    codes: tuple[int, ...] = (0,)
    termination: float = FOREVER
    termination_code: int = 0
    lines: tuple[tuple[float, str], ...] = ()
    writes: tuple[Write, ...] = ()
    makes_files: bool = False
    depends: bool = False

    def started(self, run: Run | None) -> "Program":
        """Return the program of a start, whose `run` is `None` if it is unknown."""
        if run is None:
            return self
        return replace(_program(run, self.termination), depends=True)

    def code(self, restarts: int) -> int:
        """Return the exit code of the run after so many restarts."""
        return self.codes[min(restarts, len(self.codes) - 1)]


def program_of(pod: JSON, container: JSON, role: Role) -> Program:
    """Return the program of a container of a pod.

    An annotation without a container's name applies to all containers except init
    containers. Raises AnnotationError.
    """
    name, shared = container["name"], role is Role.MAIN
    seconds = find(pod, RUN_SECONDS, name, shared=shared)
    codes = find(pod, EXIT_CODE, name, shared=shared)
    annotations = pod["metadata"].get("annotations") or {}
    indexes = annotations.get(FAILING_INDEXES) if shared else None
    found = find(pod, TERMINATION_SECONDS, name)
    termination = FOREVER if found is None else _seconds_of(*found)
    _check_pod(pod)
    if seconds is None and codes is None and indexes is None:
        return _unannotated(pod, container, role, termination)
    return Program(
        _BRIEFLY if seconds is None else _seconds_of(*seconds),
        _codes_of(pod, codes, indexes),
        termination,
    )


def pull_seconds(pod: JSON, default: float) -> float:
    """Return the seconds until the images of a pod are pulled; raises AnnotationError.

    The result is `default` without an annotation.
    """
    text = (pod["metadata"].get("annotations") or {}).get(PULL_SECONDS)
    return default if text is None else _seconds_of(PULL_SECONDS, text)


def _check_pod(pod: JSON) -> None:
    annotations = pod["metadata"].get("annotations") or {}
    if PULL_SECONDS in annotations:
        _seconds_of(PULL_SECONDS, annotations[PULL_SECONDS])
    if FAILING_SANDBOX in annotations:
        periods_of(FAILING_SANDBOX, annotations[FAILING_SANDBOX])


def _unannotated(pod: JSON, container: JSON, role: Role, termination: float) -> Program:
    run = run_of_container(container)
    if run is not None:
        return _program(run, termination)
    of_job = any(
        each["kind"] == "Job" and each.get("controller")
        for each in pod["metadata"].get("ownerReferences", ())
    )
    ends = role is Role.INIT or (role is Role.MAIN and of_job)
    seconds = _BRIEFLY if ends else FOREVER
    depends = bool(command_of(container))
    return Program(seconds, (0,), termination, depends=depends)


def _program(run: Run, termination: float) -> Program:
    """Return the program of a run; an endless `termination` is that of the run."""
    if annotated := termination != FOREVER:
        run = replace(run, termination=termination)
    return Program(
        run.seconds,
        (run.code,),
        run.termination,
        0 if annotated else run.termination_code,
        run.lines,
        run.writes,
        makes_files=True,
    )


def _codes_of(
    pod: JSON, codes: tuple[str, str] | None, indexes: str | None
) -> tuple[int, ...]:
    """Return the exit codes; those of a pod whose index fails are not 0."""
    given = None if codes is None else _codes(*codes)
    if indexes is None:
        return given or (0,)
    failing, index = _indexes(indexes), pod["metadata"]["annotations"].get(_INDEX, "")
    fails = index.isdecimal() and any(int(index) in each for each in failing)
    return (given or (1,)) if fails else (0,)


def _codes(key: str, text: str) -> tuple[int, ...]:
    codes = tuple(_code(each.strip()) for each in text.split(","))
    if None in codes:
        expected = (
            f"numbers from 0 to {_MAX_CODE} or {_OUT_OF_MEMORY_TEXT}, with commas "
            'between, as "1,1,0"'
        )
        raise AnnotationError.of(key, text, expected)
    return tuple(each for each in codes if each is not None)


def _code(text: str) -> int | None:
    if text == _OUT_OF_MEMORY_TEXT:
        return OUT_OF_MEMORY
    is_code = text.isascii() and text.isdecimal() and len(text) <= 3
    return int(text) if is_code and int(text) <= _MAX_CODE else None


def _indexes(text: str) -> list[range]:
    found = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        last = last if dash else first
        if not _INDEX_NUMBER.fullmatch(first) or not _INDEX_NUMBER.fullmatch(last):
            raise AnnotationError.of(FAILING_INDEXES, text, 'indexes as "1,3-5"')
        found.append(range(int(first), int(last) + 1))
    return found


# The lines that the containers of a pod print, and their times.

_TIMED: Final = re.compile(r"@(\d{1,9}(?:\.\d{1,3})?) (.*)")


class Line(Struct, frozen=True):
    """A line that a container prints `after` so many seconds of each run."""

    after: float
    text: str


def lines_of(pod: JSON, container: JSON, program: Program | None) -> Sequence[Line]:
    """Return the lines that each run of a container prints, in order.

    They come from an annotation, else from the command of the container, or from the
    `program` that it has found at its start.
    ``@5`` and a space before a line of the annotation is its time in seconds.
    """
    found = find(pod, LOGS, container["name"])
    if found is not None:
        lines = [_line(each) for each in found[1].splitlines()]
        return sorted(lines, key=lambda line: line.after)
    if program is not None and program.depends:
        return [Line(*each) for each in program.lines]
    run = run_of_container(container)
    return [Line(*each) for each in run.lines] if run is not None else ()


def _line(text: str) -> Line:
    match = _TIMED.fullmatch(text)
    return Line(float(match[1]), match[2]) if match else Line(0.0, text)
