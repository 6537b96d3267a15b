r"""JSONPath, as far as columns of definitions need it (client-go/util/jsonpath).

``.spec.replicas``, ``.metadata.annotations.a\.b``, ``['a.b']``, ``[0]``, ``[-1]``,
``[*]``, ``..name`` and ``[?(@.type=="Ready")]``.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import msgspec

_Step = Callable[[Any], Iterator[Any]]


class PathProblem(ValueError):
    """A text is not a path; the message says where."""


_STEP: Final = re.compile(
    r"""
    (?P<deep>\.\.)(?P<deep_name>[\w-]+)
    | \.(?P<name>(?:[^.\[\]\\\s]|\\.)+)
    | \[(?P<quote>['"])(?P<quoted>.*?)(?P=quote)\]
    | \[(?P<index>-?\d+)\]
    | \[(?P<slice>-?\d*:-?\d*)\]
    | (?:\[|\.)(?P<every>\*)\]?
    | \[\?\((?P<filter>.+?)\)\]
    """,
    re.VERBOSE,
)
_FILTER: Final = re.compile(
    r"""@(?P<path>[.\[].*?)\s*(?:(?P<operator>==|!=|<=|>=|<|>)\s*(?P<value>.+))?""",
    re.VERBOSE,
)


class JSONPath:
    """A path, ready to be followed."""

    def __init__(self, text: str) -> None:
        """Take a path, with or without braces around it; raises PathProblem."""
        self._steps = list(_steps(text.strip().removeprefix("{").removesuffix("}")))

    def find(self, value: Any) -> list[Any]:
        """Return all values at the path."""
        found: Iterable[Any] = [value]
        for step in self._steps:
            found = [each for outer in found for each in step(outer)]
        return list(found)


def _steps(text: str) -> Iterator[_Step]:
    position = 1 if text.startswith("$") else 0
    if text in (".", ""):
        return
    while position < len(text):
        found = _STEP.match(text, position)
        if found is None:
            msg = f"no step of a path begins at offset {position} of {text!r}"
            raise PathProblem(msg)
        yield _step(found)
        position = found.end()


def _step(found: re.Match[str]) -> _Step:
    parts = found.groupdict()
    if parts["deep"]:
        return _deep(parts["deep_name"])
    if parts["every"]:
        return _every
    if parts["name"] is not None:
        return _field(re.sub(r"\\(.)", r"\1", parts["name"]))
    if parts["quoted"] is not None:
        return _field(parts["quoted"])
    if parts["index"] is not None:
        return _item(int(parts["index"]))
    if parts["slice"] is not None:
        first, _, last = parts["slice"].partition(":")
        return _part(int(first) if first else None, int(last) if last else None)
    return _filtered(parts["filter"])


def _field(name: str) -> _Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]

    return step


def _item(index: int) -> _Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list) and -len(value) <= index < len(value):
            yield value[index]

    return step


def _part(first: int | None, last: int | None) -> _Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list):
            yield from value[first:last]

    return step


def _every(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _deep(name: str) -> _Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]
        for each in _every(value):
            yield from step(each)

    return step


def _filtered(text: str) -> _Step:
    found = _FILTER.fullmatch(text.strip())
    if found is None:
        msg = f"the filter {text!r} is not understood"
        raise PathProblem(msg)
    path, operator = JSONPath(found["path"]), found["operator"]
    wanted = _constant(found["value"]) if operator else None

    def fits(value: Any) -> bool:
        values = path.find(value)
        if operator is None:
            return bool(values)
        return any(_compare(each, operator, wanted) for each in values)

    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list):
            yield from filter(fits, value)

    return step


def _constant(text: str) -> Any:
    text = text.strip()
    if text[:1] == "'" == text[-1:]:
        return text[1:-1]
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        msg = f"the value {text!r} of a filter is not understood"
        raise PathProblem(msg) from None


def _compare(one: Any, operator: str, other: Any) -> bool:
    if operator == "==":
        return bool(one == other)
    if operator == "!=":
        return bool(one != other)
    try:
        return {
            "<": lambda: bool(one < other),
            "<=": lambda: bool(one <= other),
            ">": lambda: bool(one > other),
            ">=": lambda: bool(one >= other),
        }[operator]()
    except TypeError:
        return False
