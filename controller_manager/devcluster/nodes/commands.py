"""The duration and the exit code of a container's command.

It knows only commands whose end follows from their text: ``true``, ``false``,
``sleep``, ``echo`` and similar ones, and shell scripts of them with ``exit``, ``;``,
``&&`` and ``||``. All other commands are unknown.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Final

from msgspec import Struct

from controller_manager.devcluster.nodes.annotations import FOREVER

_SHELLS: Final = frozenset(("ash", "bash", "dash", "sh"))
_SUCCEED: Final = frozenset((":", "date", "echo", "hostname", "printf", "true"))
_SEPARATORS: Final = frozenset((";", "&&", "||"))
_PUNCTUATION: Final = ";&|<>()"
_UNITS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION: Final = re.compile(r"(\d+\.?\d*)([smhd]?)")


_WITHOUT_PROGRAM: Final = frozenset(("alpine", "busybox", "debian", "fedora", "ubuntu"))
"""Images that run their arguments as a command."""


class Run(Struct, frozen=True):
    """One run of a command: its seconds, and the code that it ends with."""

    seconds: float = 0.0
    code: int = 0
    exits: bool = False
    """True if the command ends its script."""
    lines: tuple[tuple[float, str], ...] = ()
    """The printed lines: seconds after the start, and the text."""


def command_of(container: Mapping[str, Any]) -> Sequence[str]:
    """Return the command line of a container, empty if only its image knows it."""
    command, args = container.get("command") or (), container.get("args") or ()
    name = str(container["image"]).rpartition("/")[2].partition("@")[0]
    if command or name.partition(":")[0] in _WITHOUT_PROGRAM:
        return [*command, *args]
    return ()


def run_of(command: Sequence[str]) -> Run | None:
    """Return the run of a command line, `None` if it is unknown."""
    program = PurePosixPath(command[0]).name
    if program not in _SHELLS:
        return _simple([program, *command[1:]])
    match command[1:]:
        case ["-c", script, *_]:
            return _script(script)
    return None


def _script(text: str) -> Run | None:
    statements = _statements(text)
    if statements is None:
        return None
    seconds, code = 0.0, 0
    lines: list[tuple[float, str]] = []
    for separator, words in statements:
        if (separator == "&&" and code) or (separator == "||" and not code):
            continue
        run = _simple(words, code)
        if run is None:
            return None
        lines += [(seconds + after, line) for after, line in run.lines]
        seconds, code = seconds + run.seconds, run.code
        if run.exits or seconds == FOREVER:
            break
    return Run(seconds, code, lines=tuple(lines))


def _statements(text: str) -> list[tuple[str, list[str]]] | None:
    """Return each statement with the separator before it, `None` if one is unknown."""
    lexer = shlex.shlex(
        text.strip().replace("\n", " ; "), posix=True, punctuation_chars=_PUNCTUATION
    )
    lexer.whitespace_split = True
    lexer.commenters = ""
    found: list[tuple[str, list[str]]] = [("", [])]
    try:
        tokens = list(lexer)
    except ValueError:  # a quotation has no end
        return None
    for token in tokens:
        separator = ";" if set(token) == {";"} else token
        if separator in _SEPARATORS:
            if separator != ";" or found[-1][1]:  # a line may end with && or ||
                found.append((separator, []))
        elif set(token) <= set(_PUNCTUATION):
            return None
        else:
            found[-1][1].append(token)
    return [each for each in found if each[1]]


def _simple(words: Sequence[str], last_code: int = 0) -> Run | None:
    """Return the run of one command after another that ended with `last_code`."""
    match words:
        case ["false", *_]:
            return Run(code=1)
        case ["sleep", *durations] if durations:
            return _sleep(durations)
        case ["exit"]:
            return Run(code=last_code, exits=True)
        case ["exit", code] if code.isdecimal():
            return Run(code=int(code) % 256, exits=True)
        case ["echo", *words]:
            return Run(lines=tuple((0.0, line) for line in _echoed(words)))
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
    return Run(total)
