"""The columns that a definition adds to the tables of its objects.

Upstream: pkg/registry/customresource/tableconvertor.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

import msgspec

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import parse_time
from controller_manager.devcluster.server.rest.tables import (
    NAME,
    Cells,
    Column,
    human_duration,
)

from .json_paths import JSONPath, PathProblem

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
