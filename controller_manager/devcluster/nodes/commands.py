"""The duration and the exit code of a container's command.

Only commands whose end follows from their text are known: ``true``, ``false``,
``sleep``, ``echo`` and the like, and shell scripts of them (`scripts`). Any
other command is unknown, and nothing is guessed.
"""

import math
import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Final

from msgspec import Struct

FOREVER: Final = math.inf

_SUCCEED: Final = frozenset((":", "date", "echo", "hostname", "printf", "true"))
_FOR_EVER: Final = 100 * 365 * 86400.0
"""Seconds from which on a duration counts as endless: times end with the year 9999."""
_UNITS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION: Final = re.compile(r"(\d+\.?\d*|\.\d+)([smhd]?)")
_CODE: Final = re.compile("[0-9]{1,9}")


class Write(Struct, frozen=True):
    """A file that a command writes: the seconds until then, and its path.

    The command removes the file unless it `exists` then.
    """

    after: float
    path: str
    exists: bool = True


class Run(Struct, frozen=True):
    """One run of a command: its seconds, and the code that it ends with."""

    seconds: float = 0.0
    code: int = 0
    exits: bool = False
    """True if the command ends its script."""
    lines: tuple[tuple[float, str], ...] = ()
    """The lines that it prints, each with the seconds after its start."""
    termination: float = FOREVER
    """The seconds for which it runs on after SIGTERM; it ends with code 0 then."""
    writes: tuple[Write, ...] = ()
    """The files that it writes."""


def simple_run(words: Sequence[str], last_code: int = 0) -> Run | None:
    """Return the run of one command that is no shell, `None` for an unknown command.

    `last_code` is the exit code of the command before it in its script.
    """
    if not words:
        return None
    match [PurePosixPath(words[0]).name, *words[1:]]:
        case ["false", *_]:
            return Run(code=1)
        case ["sleep", *durations] if durations:
            return _sleep(durations)
        case ["exit"]:
            return Run(code=last_code, exits=True)
        case ["exit", code] if _CODE.fullmatch(code):
            return Run(code=int(code) % 256, exits=True)
        case ["echo", *printed]:
            return Run(lines=tuple((0.0, line) for line in _echoed(printed)))
        case (
            ["pause" | "httpd-foreground"]
            | ["agnhost", "pause"]
            | ["tail", "-f" | "-F", "/dev/null"]
        ):
            return Run(FOREVER)
        case [name, *_] if name in _SUCCEED:
            return Run()
    return None


def _echoed(words: Sequence[str]) -> list[str]:
    """Return the lines that ``echo`` prints; variables are not replaced."""
    while words and re.fullmatch("-[neE]+", words[0]):
        words = words[1:]
    return " ".join(words).split("\n")


def _sleep(durations: Sequence[str]) -> Run | None:
    total = 0.0
    for each in durations:
        if each in ("inf", "infinity"):
            return Run(FOREVER)
        match = _DURATION.fullmatch(each)
        if match is None:
            return None
        total += float(match[1]) * _UNITS[match[2]]
    return Run(total if total < _FOR_EVER else FOREVER)
