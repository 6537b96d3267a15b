"""Values of expressions as JSON, and checks of the objects that they make."""

import base64
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from controller_manager.api.times import format_time
from controller_manager.devcluster.cel.values import EvaluationError, Message, Value


def as_json(value: Value) -> Any:
    """Return a value as JSON; raises EvaluationError for one that has none."""
    match value:
        case None | bool() | str() | float():
            return value
        case int():
            return int(value)
        case bytes():
            return base64.b64encode(value).decode()
        case datetime():
            return format_time(value)
        case timedelta():
            return f"{value.total_seconds():g}s"
        case list():
            return [as_json(each) for each in value]
        case dict():
            return {str(name): as_json(each) for name, each in value.items()}
    msg = f"a value of type {type(value).__name__} has no JSON"
    raise EvaluationError(msg)


def misnamed(value: Value, path: str = "Object") -> str:
    """Return why the type of an object is not that of its place, "" if it is.

    Upstream: CheckTypeNamesMatchFieldPathNames of k8s.io/apiserver/pkg/cel/mutation.
    The object in ``Object{spec: ...}`` must be of the type ``Object.spec``.
    """
    return next(_misnamed(value, path), "")


def _misnamed(value: Value, path: str) -> Iterator[str]:
    match value:
        case Message():
            if value.type != path:
                yield (
                    f'unexpected type name "{value.type}", expected "{path}", which '
                    "matches field name path from root Object type"
                )
            for name, each in value.items():
                yield from _misnamed(each, f"{path}.{name}")
        case dict():
            for each in value.values():
                yield from _misnamed(each, path)
        case list():
            for each in value:
                yield from _misnamed(each, path)
