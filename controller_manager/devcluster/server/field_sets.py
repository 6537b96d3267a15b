"""Sets of fields of an object, and their form in managedFields.

A path is a tuple of steps: ``f:NAME`` for a field, ``k:{KEY: VALUE}`` for an item of a
list that is merged by a key, ``v:VALUE`` for an item of a list of scalars that is a
set. The path of an item of the former kind itself ends in ``.``. All other lists are
replaced as a whole (structured-merge-diff, fieldpath).
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from controller_manager.devcluster.server.field_types import FieldTypes, Names

JSON = dict[str, Any]
Path = tuple[str, ...]

_ITSELF: Final = "."
_METADATA: Final = ("f:metadata",)
_UNOWNED: Final = frozenset(
    (
        ("f:apiVersion",),
        ("f:kind",),
        *(
            ("f:metadata", f"f:{name}")
            for name in (
                "name",
                "namespace",
                "uid",
                "resourceVersion",
                "creationTimestamp",
                "generation",
                "deletionTimestamp",
                "deletionGracePeriodSeconds",
                "managedFields",
                "selfLink",
            )
        ),
    )
)
"""Fields that nobody owns."""


def fields_in(obj: JSON, types: FieldTypes) -> Mapping[Path, Any]:
    """Return the fields of an object with their values, without those of the server."""
    found = _walk(obj, (), (), types)
    return {
        path: value
        for path, value in found
        if path != _METADATA and not any(path[: len(each)] == each for each in _UNOWNED)
    }


def _walk(
    value: Any, path: Path, names: Names, types: FieldTypes
) -> Iterator[tuple[Path, Any]]:
    is_map = isinstance(value, dict) and value
    if not is_map or (names and types.is_atomic(names)):
        yield path, value
        return
    for name, inner in value.items():
        here, inside = (*path, f"f:{name}"), (*names, name)
        if isinstance(inner, list) and inner:
            yield from _items(inner, here, inside, types)
        else:
            yield from _walk(inner, here, inside, types)


def _items(
    items: list[Any], path: Path, names: Names, types: FieldTypes
) -> Iterator[tuple[Path, Any]]:
    type_ = types.list_type(names)
    if type_.is_set:
        for each in items:
            yield (*path, f"v:{json.dumps(each)}"), each
        return
    keys = [type_.key_of(each) for each in items]
    if not type_.keys or None in keys:
        yield path, items
        return
    for each, key in zip(items, keys, strict=True):
        here = (*path, f"k:{json.dumps(key, separators=(',', ':'))}")
        yield (*here, _ITSELF), None
        yield from _walk(each, here, names, types)


def removable(given_up: Iterable[Path], owned: Iterable[Path]) -> set[Path]:
    """Return the paths that nobody owns any more, once a manager has given them up.

    An item stays while somebody owns a part of it.
    """
    kept = set(owned)
    items = {path[:number] for path in kept for number in range(len(path))}
    return {
        path
        for path in given_up
        if path not in kept and (path[-1] != _ITSELF or path[:-1] not in items)
    }


def without(obj: JSON, paths: Iterable[Path]) -> JSON:
    """Return an object without the fields at these paths.

    A map or list that becomes empty goes, too; an item goes with its own path.
    """
    result: JSON = obj
    # Items go first: without its key an item would not be found.
    for path in sorted(paths, key=lambda each: (each[-1] != _ITSELF, -len(each))):
        result = _removed(result, path) or {}
    return result


def _removed(value: Any, path: Path) -> Any:
    """Return a value without the field at a path, `None` if nothing is left."""
    if not path or path == (_ITSELF,):
        return None
    step, rest = path[0], path[1:]
    if isinstance(value, dict) and step.startswith("f:"):
        name = step[2:]
        if name not in value:
            return value
        inner = _removed(value[name], rest)
        kept = {key: each for key, each in value.items() if key != name}
        return ({**value, name: inner} if inner is not None else kept) or None
    if isinstance(value, list):
        items = (
            _removed(each, rest) if _is_item(each, step) else each for each in value
        )
        return [each for each in items if each is not None] or None
    return value


def _is_item(item: Any, step: str) -> bool:
    wanted = json.loads(step[2:])
    if step.startswith("v:"):
        return bool(item == wanted)
    return isinstance(item, dict) and wanted.items() <= item.items()


def encoded(paths: Iterable[Path]) -> JSON:
    """Return paths in the form FieldsV1."""
    result: JSON = {}
    for path in sorted(paths):
        here = result
        for step in path:
            here = here.setdefault(step, {})
    return result


def decoded(fields: JSON, path: Path = ()) -> Iterator[Path]:
    """Yield the paths in the form FieldsV1."""
    for step, inner in fields.items():
        if inner:
            yield from decoded(inner, (*path, step))
        else:
            yield (*path, step)
