"""The runs of commands: their duration, their exit code, and the files they make.

Only commands whose end follows from their text are known: ``true``, ``false``,
``sleep``, ``echo``, ``touch``, ``test`` and the like, and shell scripts of them
(`shell`). Any other command is unknown, and nothing is guessed.
"""

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from controller_manager.api.json_objects import JSON

# A run, and what it finds: variables and files.

FOREVER: Final = math.inf

RANDOM: Final = "RANDOM"
"""A variable that a shell has, and its commands do not."""
_RANDOM: Final = 2**15
"""The number of its values."""


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

    def followed_by(self, other: "Run") -> "Run":
        """Return the run of this command and then another."""
        began = self.seconds
        lines = tuple((began + after, line) for after, line in other.lines)
        writes = tuple(replace(each, after=began + each.after) for each in other.writes)
        return Run(
            began + other.seconds,
            other.code,
            exits=other.exits,
            lines=self.lines + lines,
            writes=self.writes + writes,
        )


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
        changed = self._changed.get(str(PurePosixPath(path)))
        return self._has_file(path) if changed is None else changed

    def take(self, writes: Iterable[Write]) -> None:
        """Let later commands see what a command has written or removed."""
        for each in writes:
            self._changed[str(PurePosixPath(each.path))] = each.exists


def random_of(pod: JSON, container: JSON, restarts: int) -> str:
    """Return ``$RANDOM``: another number for each run, the same one each time."""
    seed = f"{pod['metadata'].get('uid', '')} {container['name']} {restarts}".encode()
    return str(int(sha256(seed).hexdigest(), 16) % _RANDOM)


class UnknownError(Exception):
    """The end of a command does not follow from its text."""


# Commands that are no shell.

_SUCCEED: Final = frozenset((":", "date", "echo", "hostname", "printf", "true"))
_FOR_EVER: Final = 100 * 365 * 86400.0
"""Seconds from which on a duration counts as endless: times end with the year 9999."""
_UNITS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION: Final = re.compile(r"(\d+\.?\d*|\.\d+)([smhd]?)")
_CODE: Final = re.compile("[0-9]{1,9}")
_ON_FILES: Final = frozenset(("-d", "-e", "-f", "-r", "-s", "-w", "-x"))
_INTEGER: Final = re.compile("-?[0-9]{1,18}")
_NUMBERS: Final[Mapping[str, Callable[[int, int], bool]]] = {
    "-eq": operator.eq,
    "-ne": operator.ne,
    "-lt": operator.lt,
    "-le": operator.le,
    "-gt": operator.gt,
    "-ge": operator.ge,
}


def simple_run(
    name: str, rest: list[str], around: Surroundings | None, last_code: int = 0
) -> Run:
    """Return the run of a command; `last_code` is that of the one before it."""
    match [name, *rest]:
        case ["false", *_]:
            return Run(code=1)
        case ["sleep", _, *_]:
            return _sleep(rest)
        case ["exit"]:
            return Run(code=last_code, exits=True)
        case ["exit", code] if _CODE.fullmatch(code):
            return Run(code=int(code) % 256, exits=True)
        case ["echo", *_]:
            printed = [*rest]
            while printed and re.fullmatch("-[neE]+", printed[0]):
                del printed[0]
            return Run(lines=_lines([" ".join(printed) + "\n"]))
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
        case [_, *_] if name in _SUCCEED:
            return Run()
    return _run_on_files(name, rest, around)


def _sleep(durations: Sequence[str]) -> Run:
    total = 0.0
    for each in durations:
        if each in ("inf", "infinity"):
            return Run(FOREVER)
        match = _DURATION.fullmatch(each)
        if match is None:
            raise UnknownError
        total += float(match[1]) * _UNITS[match[2]]
    return Run(total if total < _FOR_EVER else FOREVER)


def _lines(texts: Iterable[str]) -> tuple[tuple[float, str], ...]:
    return tuple(
        (0.0, line) for each in texts for line in each.removesuffix("\n").split("\n")
    )


def _run_on_files(name: str, rest: list[str], around: Surroundings | None) -> Run:
    """Return the run of a command about files, which are unknown without `around`."""
    if any("$" in each or "`" in each for each in rest):
        raise UnknownError
    paths = [each for each in rest if not each.startswith("-")]
    match name:
        case "touch" | "mkdir" if paths:
            return Run(writes=tuple(Write(0.0, each) for each in paths))
        case "rm" | "rmdir" if paths:
            forced = any(re.fullmatch("-[a-zA-Z]*f[a-zA-Z]*", each) for each in rest)
            succeeds = forced or all(map(_known(around).exists, paths))
            writes = tuple(Write(0.0, each, exists=False) for each in paths)
            return Run(code=int(not succeeds), writes=writes)
        case "mv" | "cp" if len(paths) == 2:
            return _moved(name, paths[0], paths[1], _known(around))
        case "cat" | "ls" if paths:
            if not all(map(_known(around).exists, paths)):
                return Run(code=1)
            known = map(_known(around).content, paths if name == "cat" else ())
            return Run(lines=_lines(filter(None, known)))
        case "env" | "printenv":
            return _printed(name, rest, _known(around).variables)
        case "dd":
            given = dict(each.partition("=")[::2] for each in rest)
            if given.get("of") and "count" in given:  # else it has no end
                return Run(writes=(Write(0.0, given["of"]),))
        case "[" | "[[" | "test":
            return _test(name, rest, around)
    raise UnknownError


def _known(around: Surroundings | None) -> Surroundings:
    if around is None:
        raise UnknownError
    return around


def _printed(name: str, words: list[str], variables: Mapping[str, str]) -> Run:
    """Return the run of ``env``, or of ``printenv``, which may print some values."""
    if not words:
        listed = [f"{key}={value}" for key, value in variables.items() if key != RANDOM]
        return Run(lines=_lines(listed))
    if name == "env":
        raise UnknownError
    listed = [variables[each] for each in words if each in variables]
    return Run(code=int(len(listed) < len(words)), lines=_lines(listed))


def _moved(name: str, source: str, target: str, around: Surroundings) -> Run:
    if not around.exists(source):
        return Run(code=1)
    if target.endswith("/"):
        target += PurePosixPath(source).name
    made, gone = Write(0.0, target), Write(0.0, source, exists=False)
    return Run(writes=(made,) if name == "cp" else (made, gone))


def _test(name: str, words: list[str], around: Surroundings | None) -> Run:
    closing = {"[": "]", "[[": "]]"}.get(name)
    if closing is not None:
        if words[-1:] != [closing]:
            raise UnknownError
        words = words[:-1]
    negated = words[:1] == ["!"]
    return Run(code=int(_holds(words[1:] if negated else words, around) is negated))


def _holds(words: Sequence[str], around: Surroundings | None) -> bool:
    match words:
        case [kind, path] if kind in _ON_FILES:
            return _known(around).exists(path)
        case ["-n", text] | [text]:
            return bool(text)
        case ["-z", text]:
            return not text
        case [one, "=" | "==", other]:
            return one == other
        case [one, "!=", other]:
            return one != other
        case [one, compared, other] if compare := _NUMBERS.get(compared):
            if _INTEGER.fullmatch(one) and _INTEGER.fullmatch(other):
                return compare(int(one), int(other))
    raise UnknownError
