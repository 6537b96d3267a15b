r"""JSONPath, as far as columns of definitions need it (client-go/util/jsonpath).

``.spec.replicas``, ``.metadata.annotations.a\.b``, ``['a.b']``, ``[0]``, ``[-1]``,
``[*]``, ``..name`` and ``[?(@.type=="Ready")]``.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

import msgspec

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import parse_time
from controller_manager.devcluster.apiserver.strategy import (
    NAME,
    Cells,
    Column,
    human_duration,
)

# JSONPath, as far as columns of definitions need it (client-go/util/jsonpath).

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


# The columns that a definition adds to the tables of its objects.

_AGE: Final = {
    "name": "Age",
    "type": "date",
    "jsonPath": ".metadata.creationTimestamp",
}
_PATH: Final = "Custom resource definition column (in JSONPath format): "


class _Shown(NamedTuple):
    column: Column
    path: JSONPath


class PrinterColumns:
    """The name of an object, and the columns of its definition."""

    def __init__(self, declared: Sequence[JSON]) -> None:
        """Take ``additionalPrinterColumns``; the default is the column Age."""
        self._shown = [
            _Shown(_column(each), path)
            for each in declared or [_AGE]
            if (path := _path(each)) is not None
        ]
        self.columns = (NAME, *(each.column for each in self._shown))

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return an object's row; a field that is absent leaves its cell empty."""
        return [
            obj["metadata"]["name"],
            *(_cell(each, obj, now) for each in self._shown),
        ]


def _column(declared: JSON) -> Column:
    path = declared.get("jsonPath", "")
    return Column(
        declared["name"],
        declared["type"],
        declared.get("priority", 0),
        declared.get("format", ""),
        declared.get("description") or f"{_PATH}{path}",
    )


def _path(declared: JSON) -> JSONPath | None:
    """Return the path of a column, or `None`, which omits it, for an invalid path."""
    try:
        return JSONPath(declared.get("jsonPath", ""))
    except PathProblem:
        return None


def _cell(shown: _Shown, obj: JSON, now: datetime) -> Any:
    found = shown.path.find(obj)
    if not found or found[0] is None:
        return None
    value = found[0]
    match shown.column.type:
        case "string":
            return _text(value)
        case "integer" if _is_number(value):
            return int(value)
        case "number" if _is_number(value):
            return value
        case "boolean" if isinstance(value, bool):
            return value
        case "date" if isinstance(value, str):
            return _since(value, now)
    return None


def _text(value: Any) -> str:
    """Return a value as Go's templates print it: only texts are without quotes."""
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()


def _since(text: str, now: datetime) -> str:
    try:
        then = parse_time(text)
        return human_duration((now - then).total_seconds())
    except (TypeError, ValueError):
        return "<invalid>"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
