"""The runs of commands: their duration, their exit code, and the files they make.

Only commands whose end follows from their text are known: ``true``, ``false``,
``sleep``, ``echo``, ``touch``, ``test`` and the like, and shell scripts of them
(`shell`). Any other command is unknown, and nothing is guessed.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Final

from msgspec import Struct

from controller_manager.api.json_objects import JSON

# The duration and the exit code of a container's command.

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
    """The seconds for which it runs on after SIGTERM."""
    termination_code: int = 0
    """The code that it ends with after SIGTERM."""
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
        case ["agnhost", "pause"]:
            lines = ((0.0, "Paused"),)
            return Run(FOREVER, lines=lines, termination=0.0, termination_code=2)
        case ["pause"]:
            return Run(FOREVER, termination=0.0)
        case (
            ["httpd-foreground"]
            | ["agnhost", "grpc-health-checking" | "liveness" | "test-webserver"]
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


# The variables and the files that a command finds.

RANDOM: Final = "RANDOM"
"""A variable that a shell has, and its commands do not."""
_RANDOM: Final = 2**15
"""The number of its values."""


class Surroundings:
    """The variables of a container, and its files at one time.

    Commands that run in them see the files that they wrote before.
    """

    def __init__(
        self,
        variables: Mapping[str, str],
        has_file: Callable[[str], bool],
        content: Callable[[str], str | None] = lambda _: None,
    ) -> None:
        """Take the variables, and functions that know a file by its path.

        `content` returns `None` for a file whose content is unknown.
        """
        self.variables = variables
        self.content = content
        self._has_file = has_file
        self._changed: dict[str, bool] = {}

    def assigned(self, words: Iterable[str]) -> "Surroundings":
        """Return these surroundings with the values of words such as ``A=b``."""
        pairs = (each.partition("=") for each in words)
        new = Surroundings(
            {**self.variables, **{name: value for name, _, value in pairs}},
            self._has_file,
            self.content,
        )
        new._changed = self._changed
        return new

    def exists(self, path: str) -> bool:
        """Tell whether a file or directory exists."""
        changed = self._changed.get(_plain(path))
        return self._has_file(path) if changed is None else changed

    def take(self, writes: Iterable[Write]) -> None:
        """Let later commands see what a command has written or removed."""
        for each in writes:
            self._changed[_plain(each.path)] = each.exists


def _plain(path: str) -> str:
    return str(PurePosixPath(path))


def random_of(pod: JSON, container: JSON, restarts: int) -> str:
    """Return ``$RANDOM``: another number for each run, the same one each time."""
    seed = f"{pod['metadata'].get('uid', '')} {container['name']} {restarts}".encode()
    return str(int(sha256(seed).hexdigest(), 16) % _RANDOM)


# Commands that look for files, make them, move them and remove them.

_FAILED: Final = Run(code=1)
_ON_FILES: Final = frozenset(("-d", "-e", "-f", "-r", "-s", "-w", "-x"))
_INTEGER: Final = re.compile("-?[0-9]{1,18}")
_NUMBERS: Final[Mapping[str, Callable[[int, int], bool]]] = {
    "-eq": lambda one, other: one == other,
    "-ne": lambda one, other: one != other,
    "-lt": lambda one, other: one < other,
    "-le": lambda one, other: one <= other,
    "-gt": lambda one, other: one > other,
    "-ge": lambda one, other: one >= other,
}


def run_of_files(words: Sequence[str], around: Surroundings | None) -> Run | None:
    """Return the run of a command about files, `None` for an unknown command.

    Without surroundings the files are unknown.
    """
    name, *rest = [PurePosixPath(words[0]).name, *words[1:]]
    if any("$" in each or "`" in each for each in rest):
        return None
    paths = [each for each in rest if not each.startswith("-")]
    match name:
        case "touch" | "mkdir" if paths:
            return Run(writes=tuple(Write(0.0, each) for each in paths))
        case "rm" | "rmdir" if paths:
            return _removed(rest, paths, around)
        case "mv" | "cp" if len(paths) == 2 and around:
            return _moved(name, paths[0], paths[1], around)
        case "cat" | "ls" if paths and around:
            if not all(map(around.exists, paths)):
                return _FAILED
            contents = filter(None, map(around.content, paths)) if name == "cat" else ()
            return Run(lines=_lines(contents))
        case "env" | "printenv" if around:
            return _printed(name, rest, around.variables)
        case "dd":
            return _filled(rest)
        case "[" | "[[" | "test":
            return _test(name, rest, around)
    return None


def _printed(
    name: str, words: Sequence[str], variables: Mapping[str, str]
) -> Run | None:
    """Return the run of ``env``, or of ``printenv``, which may print some values."""
    if not words:
        listed = [f"{key}={value}" for key, value in variables.items() if key != RANDOM]
    elif name == "env":
        return None
    else:
        listed = [variables[each] for each in words if each in variables]
    code = 0 if not words or len(listed) == len(words) else 1
    return Run(code=code, lines=_lines(listed))


def _lines(texts: Iterable[str]) -> tuple[tuple[float, str], ...]:
    return tuple(
        (0.0, line) for each in texts for line in each.removesuffix("\n").split("\n")
    )


def _removed(
    words: Sequence[str], paths: Sequence[str], around: Surroundings | None
) -> Run | None:
    forced = any(re.fullmatch("-[a-zA-Z]*f[a-zA-Z]*", each) for each in words)
    writes = tuple(Write(0.0, each, exists=False) for each in paths)
    if forced:
        return Run(writes=writes)
    if around is None:
        return None
    return Run(code=0 if all(map(around.exists, paths)) else 1, writes=writes)


def _moved(name: str, source: str, target: str, around: Surroundings) -> Run:
    if not around.exists(source):
        return _FAILED
    if target.endswith("/"):
        target += PurePosixPath(source).name
    made = Write(0.0, target)
    if name == "cp":
        return Run(writes=(made,))
    return Run(writes=(made, Write(0.0, source, exists=False)))


def _filled(operands: Sequence[str]) -> Run | None:
    """Return the run of ``dd`` that makes a file of so many blocks."""
    given = dict(each.partition("=")[::2] for each in operands)
    path, is_endless = given.get("of"), "count" not in given
    return None if not path or is_endless else Run(writes=(Write(0.0, path),))


def _test(name: str, words: list[str], around: Surroundings | None) -> Run | None:
    closing = {"[": "]", "[[": "]]"}.get(name)
    if closing is not None:
        if words[-1:] != [closing]:
            return None
        words = words[:-1]
    negated = words[:1] == ["!"]
    holds = _holds(words[1:] if negated else words, around)
    return None if holds is None else Run(code=int(holds is negated))


def _holds(words: Sequence[str], around: Surroundings | None) -> bool | None:
    """Tell whether a condition holds, `None` for an unknown one."""
    match words:
        case [kind, path] if kind in _ON_FILES:
            return around.exists(path) if around else None
        case ["-n", text] | [text]:
            return bool(text)
        case ["-z", text]:
            return not text
        case [one, "=" | "==", other]:
            return one == other
        case [one, "!=", other]:
            return one != other
        case [one, compared, other] if compare := _NUMBERS.get(compared):
            numbers = [each for each in (one, other) if _INTEGER.fullmatch(each)]
            return compare(*map(int, numbers)) if len(numbers) == 2 else None
    return None
