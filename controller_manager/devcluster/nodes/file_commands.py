"""Commands that look for files, make them, move them and remove them."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final

from .commands import Run, Write
from .surroundings import Surroundings

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
            return Run() if all(map(around.exists, paths)) else _FAILED
        case "dd":
            return _filled(rest)
        case "[" | "[[" | "test":
            return _test(name, rest, around)
    return None


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
    """Return the run of ``test``, ``[`` or ``[[``."""
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
