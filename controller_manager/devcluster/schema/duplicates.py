"""Finds fields that stand twice in an object of a body in JSON.

Upstream: sigs.k8s.io/json with DisallowDuplicateFields. A decoder of JSON keeps the
last value of a name, so the pairs of an object with a repeated name are kept beside it.
"""

import json
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from controller_manager.api.json_objects import JSON

_OPERATION: Final = frozenset(("op", "path", "from", "value"))
"""The fields of an operation of a JSON patch."""


class Repeated(dict[str, Any]):
    """An object in which a name stands more than once; `pairs` are all its fields."""

    __slots__ = ("pairs",)

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs


def with_repeated(value: Any, body: bytes) -> Any:
    """Return the value of a body, in which objects with repeated names are Repeated.

    `value` is the decoded body, which is decoded again if names may be repeated.
    """
    if repeats_nothing(value, body):
        return value
    return json.loads(body, object_pairs_hook=_object)


def repeats_nothing(value: Any, body: bytes) -> bool:
    """Tell whether a body is JSON that is equal to its encoded value, but for spaces.

    No name of such a body is repeated. `value` is the decoded body.
    """
    try:
        encoded = msgspec.json.encode(value)
        return encoded == body or encoded == msgspec.json.format(body, indent=-1)
    except (msgspec.DecodeError, RecursionError):
        return False  # the body is YAML, or very deep


def _object(pairs: list[tuple[str, Any]]) -> JSON:
    found = dict(pairs)
    return found if len(found) == len(pairs) else Repeated(pairs)


def duplicates(value: Any) -> list[str]:
    """Return the repeated fields in a value, in upstream's words."""
    found = (f'duplicate field "{path}"' for path in _duplicates(value, ""))
    return list(dict.fromkeys(found))


def json_patch_problems(patch: Any) -> list[str]:
    """Return the unknown and the repeated fields of the operations of a JSON patch."""
    found = [
        f"json patch {problem}"
        for number, each in enumerate(patch if isinstance(patch, list) else ())
        if isinstance(each, dict)
        for problem in _operation_problems(each, f"[{number}]")
    ]
    return list(dict.fromkeys(found))


def _operation_problems(operation: JSON, path: str) -> Iterator[str]:
    for name in operation:
        if name not in _OPERATION:
            yield f'unknown field "{path}.{name}"'
    known = {f"{path}.{name}" for name in operation if name not in _OPERATION}
    for where in _duplicates(operation, path):
        if where not in known:
            yield f'duplicate field "{where}"'


def _duplicates(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, list):
        for number, each in enumerate(value):
            yield from _duplicates(each, f"{path}[{number}]")
    if not isinstance(value, dict):
        return
    seen: set[str] = set()
    pairs = value.pairs if isinstance(value, Repeated) else value.items()
    for name, each in pairs:
        where = f"{path}.{name}" if path else name
        if name in seen:
            yield where
        seen.add(name)
        yield from _duplicates(each, where)


def plain(value: Any) -> Any:
    """Return a value whose objects have the last value of each name only."""
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [plain(each) for each in value]
    return value
