"""What the containers of a pod do: for how long they run, and how they end.

No container runs here. An annotation of the pod says what a container does; without
one, its command does, as far as a short list of commands goes (`commands`). The
table in docs/devcluster.md shows both.
"""

import math
from enum import StrEnum
from typing import Any, Final

from msgspec import Struct

from controller_manager.devcluster.nodes.commands import FOREVER, run_of

JSON = dict[str, Any]

RUN_SECONDS: Final = "devcluster/run-seconds"
EXIT_CODE: Final = "devcluster/exit-code"
FAILING_INDEXES: Final = "devcluster/failing-indexes"
_INDEX: Final = "batch.kubernetes.io/job-completion-index"

_BRIEFLY: Final = 1.0
"""Seconds for which a container runs that has to end, and of which we know no more."""
_MAX_CODE: Final = 255


class Role(StrEnum):
    """What a container is in its pod."""

    INIT = "init"
    SIDECAR = "sidecar"
    MAIN = "main"


class ProgramError(Exception):
    """An annotation cannot be understood; the message names it."""


class Program(Struct, frozen=True):
    """What a container does each time that it runs.

    It runs for `seconds`, for ever if that is infinite. It ends with the first of
    `codes` at first, with the second after its first restart, and so on; the last one
    holds from then on.
    """

    seconds: float = FOREVER
    codes: tuple[int, ...] = (0,)

    def code(self, restarts: int) -> int:
        """Return the exit code of the run after so many restarts."""
        return self.codes[min(restarts, len(self.codes) - 1)]


def program_of(pod: JSON, container: JSON, role: Role) -> Program:
    """Return what a container of a pod does.

    An annotation without a container's name holds for all that are no init
    containers. Raises ProgramError.
    """
    annotations = pod["metadata"].get("annotations") or {}
    shared = role is Role.MAIN
    seconds = _find(annotations, RUN_SECONDS, container["name"], shared=shared)
    codes = _find(annotations, EXIT_CODE, container["name"], shared=shared)
    indexes = annotations.get(FAILING_INDEXES) if shared else None
    if seconds is None and codes is None and indexes is None:
        return _unannotated(pod, container, role)
    return Program(
        _BRIEFLY if seconds is None else _seconds(*seconds),
        _codes_of(pod, codes, indexes),
    )


def _find(
    annotations: JSON, key: str, container: str, *, shared: bool
) -> tuple[str, str] | None:
    """Return the annotation for one container, or the one for all: name and text."""
    for name in (f"{key}.{container}", key) if shared else (f"{key}.{container}",):
        if name in annotations:
            return name, annotations[name].strip()
    return None


def _unannotated(pod: JSON, container: JSON, role: Role) -> Program:
    command = [*container.get("command", ()), *container.get("args", ())]
    run = run_of(command) if container.get("command") else None
    if run is not None:
        return Program(run.seconds, (run.code,))
    ends = role is Role.INIT or (role is Role.MAIN and _belongs_to_a_job(pod))
    return Program(_BRIEFLY if ends else FOREVER)


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


def _seconds(key: str, text: str) -> float:
    if text == "forever":
        return FOREVER
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < FOREVER:
        raise ProgramError(_wrong(key, text, 'a number of seconds, or "forever"'))
    return seconds


def _codes(key: str, text: str) -> tuple[int, ...]:
    parts = [each.strip() for each in text.split(",")]
    if not all(each.isdecimal() and int(each) <= _MAX_CODE for each in parts):
        expected = f'numbers from 0 to {_MAX_CODE}, with commas between, as "1,1,0"'
        raise ProgramError(_wrong(key, text, expected))
    return tuple(map(int, parts))


def _indexes(text: str) -> list[range]:
    found = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        last = last if dash else first
        if not first.isdecimal() or not last.isdecimal():
            raise ProgramError(_wrong(FAILING_INDEXES, text, 'indexes as "1,3-5"'))
        found.append(range(int(first), int(last) + 1))
    return found


def _wrong(key: str, text: str, expected: str) -> str:
    return f"annotation {key}: must be {expected}, it is {text!r}"
