"""The fields in which two forms of an object differ, and their equality.

An item of a list that has a key, such as the type of a condition, is found by its key:
another writer may add items of its own. Any other list is one value.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec import Struct

from controller_manager.api.scalars import parse_time

_BITS: Final = 40
_MASK: Final = (1 << _BITS) - 1


def viewed(server: int, change: int = 0) -> str:
    """Return the version of the view for a version of the server and a change."""
    return str((server << _BITS) | change)


def server_version(version: str) -> str:
    """Return the server's version in a version of the view.

    An empty version and ``0`` stand for themselves, and so does a version that is no
    number.
    """
    return str(int(version) >> _BITS) if version.isdecimal() else version


def change_number(version: str) -> int:
    """Return the number of the change in a version of the view, 0 for none."""
    return int(version) & _MASK if version.isdecimal() else 0


def as_number(version: object) -> int:
    """Return a version of the server as a number; 0 if it is none."""
    return int(version) if isinstance(version, str) and version.isdecimal() else 0


def version_of(obj: dict[str, Any] | None) -> int:
    """Return the server's version of an object as a number; 0 for no object."""
    return as_number((obj or {}).get("metadata", {}).get("resourceVersion"))


JSON = dict[str, Any]


class Item(Struct, frozen=True):
    """A step into a list: the item whose `field` has this value.

    The items of a set are their own keys; `field` is then empty.
    """

    field: str
    value: str

    def __str__(self) -> str:
        """Return ``[type=Ready]``."""
        return f"[{self.field}={self.value}]" if self.field else f"[{self.value}]"


Path = tuple[str | Item, ...]

REMOVED: Final = msgspec.UNSET
"""The value of a field that is removed."""

KEYS: Final[Mapping[str, str]] = {
    "addresses": "type",
    "conditions": "type",
    "containers": "name",
    "env": "name",
    "ephemeralContainers": "name",
    "imagePullSecrets": "name",
    "initContainers": "name",
    "ownerReferences": "uid",
    "podIPs": "ip",
    "resourceClaimStatuses": "name",
    "resourceClaims": "name",
    "secrets": "name",
    "volumeMounts": "mountPath",
    "volumes": "name",
    "volumesAttached": "name",
}
"""The fields whose items have a key, and the key (upstream's patchMergeKey)."""

SETS: Final = frozenset(("finalizers", "podCIDRs"))
"""The lists that are sets of texts."""

_NOTHING: Final = (None, "", 0, False, REMOVED)


def differences(old: Any, new: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:  # noqa: ANN401 - JSON
    """Yield the fields that `new` has with another value, and the new values."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in {**new, **old}:
            pair = old.get(name, REMOVED), new.get(name, REMOVED)
            yield from differences(*pair, (*path, name))
    elif (items := _keyed_items(old, new, path)) is not None:
        olds, news = items
        for key in {**news, **olds}:
            pair = olds.get(key, REMOVED), news.get(key, REMOVED)
            yield from differences(*pair, (*path, key))
    elif isinstance(new, dict) and new and is_empty(old):
        for name, value in new.items():
            yield from differences(REMOVED, value, (*path, name))
    elif not (old == new or (is_empty(old) and is_empty(new))):
        yield path, new


def _keyed_items(
    old: Any,  # noqa: ANN401 - JSON
    new: Any,  # noqa: ANN401 - JSON
    path: Path,
) -> tuple[dict[Item, Any], dict[Item, Any]] | None:
    """Return the items of two lists by key; None if they are not such lists."""
    name = path[-1] if path else ""
    if not isinstance(name, str) or name not in KEYS.keys() | SETS:
        return None
    lists = (_as_list(old), _as_list(new))
    if lists[0] is None or lists[1] is None:
        return None
    olds, news = items_by_key(name, lists[0]), items_by_key(name, lists[1])
    return None if olds is None or news is None else (olds, news)


def _as_list(value: Any) -> list[Any] | None:  # noqa: ANN401 - JSON
    if value is None or value is REMOVED:
        return []
    return value if isinstance(value, list) else None


def items_by_key(name: str, items: list[Any]) -> dict[Item, Any] | None:
    """Return the items of the field `name` by key; None if the keys are not unique."""
    if name in SETS:
        found = {Item("", str(each)): each for each in items}
    else:
        key = KEYS[name]
        if not all(isinstance(each, dict) and key in each for each in items):
            return None
        found = {Item(key, str(each[key])): each for each in items}
    return found if len(found) == len(items) else None


def is_empty(value: Any) -> bool:  # noqa: ANN401 - JSON
    """Tell whether a value says no more than an absent field."""
    if isinstance(value, dict):
        return all(map(is_empty, value.values()))
    return value == [] or any(value is each or value == each for each in _NOTHING)


def value_at(obj: Any, path: Path) -> Any:  # noqa: ANN401 - JSON
    """Return the value of a field, `REMOVED` if there is none."""
    for number, step in enumerate(path):
        if isinstance(step, Item):
            field = path[number - 1]
            items = _as_list(obj)
            if items is None or not isinstance(field, str):
                return REMOVED
            obj = (items_by_key(field, items) or {}).get(step, REMOVED)
        elif isinstance(obj, dict):
            obj = obj.get(step, REMOVED)
        else:
            return REMOVED
    return obj


def with_value(obj: Any, path: Path, value: Any) -> Any:  # noqa: ANN401 - JSON
    """Return a copy of `obj` in which one field has `value`."""
    if not path:
        return value
    step, rest = path[0], path[1:]
    if isinstance(step, Item):
        return _with_item(obj, step, rest, value)
    changed = dict(obj) if isinstance(obj, dict) else {}
    inner = with_value(changed.get(step, REMOVED), rest, value)
    if inner is REMOVED:
        changed.pop(step, None)
    else:
        changed[step] = inner
    return changed


def _with_item(obj: Any, step: Item, rest: Path, value: Any) -> list[Any]:  # noqa: ANN401 - JSON
    items = list(obj) if isinstance(obj, list) else []
    for number, each in enumerate(items):
        if _is_item(each, step):
            inner = with_value(each, rest, value)
            if inner is REMOVED:
                return [*items[:number], *items[number + 1 :]]
            return [*items[:number], inner, *items[number + 1 :]]
    inner = with_value({step.field: step.value} if rest else REMOVED, rest, value)
    return items if inner is REMOVED or is_empty(value) else [*items, inner]


def _is_item(item: Any, step: Item) -> bool:  # noqa: ANN401 - JSON
    if not step.field:
        return str(item) == step.value
    return isinstance(item, dict) and str(item.get(step.field)) == step.value


def are_same(one: Any, other: Any, tolerance: float) -> bool:  # noqa: ANN401 - JSON
    """Tell whether two values say the same.

    Two times are the same if they are at most `tolerance` seconds apart. The order of a
    list does not count, and neither does a field that is empty.
    """
    if one == other or (is_empty(one) and is_empty(other)):
        return True
    if isinstance(one, dict) and isinstance(other, dict):
        names = one.keys() | other.keys()
        pairs = ((one.get(name, REMOVED), other.get(name, REMOVED)) for name in names)
        return all(are_same(*pair, tolerance) for pair in pairs)
    if isinstance(one, list) and isinstance(other, list):
        return _are_same_lists(one, other, tolerance)
    return _are_close(one, other, tolerance)


def _are_same_lists(one: list[Any], other: list[Any], tolerance: float) -> bool:
    if len(one) != len(other):
        return False
    left = sorted(one, key=msgspec.json.encode)
    right = sorted(other, key=msgspec.json.encode)
    return all(
        are_same(*pair, tolerance) for pair in zip(left, right, strict=True)
    ) or all(are_same(*pair, tolerance) for pair in zip(one, other, strict=True))


def _are_close(one: Any, other: Any, tolerance: float) -> bool:  # noqa: ANN401 - JSON
    times = _time(one), _time(other)
    if times[0] is None or times[1] is None:
        return False
    return abs((times[0] - times[1]).total_seconds()) <= tolerance


def _time(value: Any) -> datetime | None:  # noqa: ANN401 - JSON
    if not isinstance(value, str) or len(value) < len("2026-01-01T00:00:00Z"):
        return None
    try:
        return parse_time(value)
    except (ValueError, TypeError):
        return None


def shown_path(path: Path) -> str:
    """Return a path as text, such as ``status.conditions[type=Ready].reason``."""
    shown = "".join(f".{step}" if isinstance(step, str) else str(step) for step in path)
    return shown.removeprefix(".")
