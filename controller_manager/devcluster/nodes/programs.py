"""The programs of a pod's containers: the duration of their runs, and their exit codes.

No container runs here. An annotation of the pod says what a container does; without
one, its command does, as far as it is known (`container_commands`). The
table in docs/devcluster.md shows both.
"""

import re
from enum import StrEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from controller_manager.api.json_objects import JSON

from .annotations import (
    EXIT_CODE,
    FAILING_INDEXES,
    FAILING_SANDBOX,
    PULL_SECONDS,
    RUN_SECONDS,
    TERMINATION_SECONDS,
    AnnotationError,
    find,
    periods_of,
    seconds_of,
)
from .commands import FOREVER, Run, Write
from .container_commands import command_of, run_of_container

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
    runs. After SIGTERM it continues for `termination` seconds, or until it is killed.
    Each run writes the files `writes`. A program that `depends` on variables and files
    is found again at each start. One that `makes_files` makes those that are listed,
    and no others.
    """

    seconds: float = FOREVER
    codes: tuple[int, ...] = (0,)
    termination: float = FOREVER
    writes: tuple[Write, ...] = ()
    makes_files: bool = False
    depends: bool = False

    def started(self, run: Run | None) -> "Program":
        """Return the program of a start, whose `run` is `None` if it is unknown."""
        if run is None:
            return self
        termination = self.termination
        if termination == FOREVER:
            termination = run.termination
        return replace(_program(run, termination), depends=True)

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
    termination = _termination(pod, name)
    _check_pod(pod)
    if seconds is None and codes is None and indexes is None:
        return _unannotated(pod, container, role, termination)
    return Program(
        _BRIEFLY if seconds is None else seconds_of(*seconds),
        _codes_of(pod, codes, indexes),
        termination,
    )


def pull_seconds(pod: JSON, default: float) -> float:
    """Return the seconds until the images of a pod are pulled; raises AnnotationError.

    The result is `default` without an annotation.
    """
    text = (pod["metadata"].get("annotations") or {}).get(PULL_SECONDS)
    return default if text is None else seconds_of(PULL_SECONDS, text)


def _check_pod(pod: JSON) -> None:
    """Raise AnnotationError for a wrong annotation about the pod as a whole."""
    annotations = pod["metadata"].get("annotations") or {}
    if PULL_SECONDS in annotations:
        seconds_of(PULL_SECONDS, annotations[PULL_SECONDS])
    if FAILING_SANDBOX in annotations:
        periods_of(FAILING_SANDBOX, annotations[FAILING_SANDBOX])


def _termination(pod: JSON, name: str) -> float:
    found = find(pod, TERMINATION_SECONDS, name)
    return FOREVER if found is None else seconds_of(*found)


def _unannotated(pod: JSON, container: JSON, role: Role, termination: float) -> Program:
    run = run_of_container(container)
    if run is not None:
        if find(pod, TERMINATION_SECONDS, container["name"]) is None:
            termination = run.termination
        return _program(run, termination)
    ends = role is Role.INIT or (role is Role.MAIN and _belongs_to_a_job(pod))
    seconds = _BRIEFLY if ends else FOREVER
    depends = bool(command_of(container))
    return Program(seconds, (0,), termination, depends=depends)


def _program(run: Run, termination: float) -> Program:
    """Return the program of a known command."""
    return Program(run.seconds, (run.code,), termination, run.writes, makes_files=True)


def _belongs_to_a_job(pod: JSON) -> bool:
    owners = pod["metadata"].get("ownerReferences", ())
    return any(each["kind"] == "Job" and each.get("controller") for each in owners)


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
    """Return one exit code, `None` if it cannot be understood."""
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
