"""Types of values for merging: as a whole, field by field, or item by item.

Upstream: structured-merge-diff, schema.
"""

import json
from collections.abc import Callable, Mapping
from functools import cached_property, lru_cache
from typing import Any, Final, Literal

import msgspec

Scalar = Literal["numeric", "string", "boolean", "untyped"]

_KEPT: Final = 4096
"""The size of the cache of steps: items of a kind have few keys."""


class NoKeyError(ValueError):
    """An item lacks the key of its list."""


class ListType:
    """A list: replaced as a whole, a set of scalars, or items with keys.

    A list without `keys` is a set, unless it is atomic.
    """

    __slots__ = ("defaults", "is_atomic", "items", "keys")

    def __init__(
        self,
        items: "FieldType",
        keys: tuple[str, ...] = (),
        defaults: Mapping[str, Any] | None = None,
        *,
        is_atomic: bool = False,
    ) -> None:
        """Take the type of the items, and the key fields.

        `defaults` has the values of those fields that items may lack.
        """
        self.items = items
        self.keys = tuple(sorted(keys))
        self.defaults = defaults or {}
        self.is_atomic = is_atomic

    def step(self, item: Any) -> str:
        """Return the step of an item in a path; raises NoKeyError if it has no key."""
        if not self.keys:
            return _value_step(item)
        if item is None:
            msg = "associative list with keys may not have a null element"
            raise NoKeyError(msg)
        if not isinstance(item, dict):
            msg = "associative list with keys may not have non-map elements"
            raise NoKeyError(msg)
        keys, defaults = self.keys, self.defaults
        names = [name for name in keys if name in item or name in defaults]
        if not names:
            listed = " ".join(f'"{name}"' for name in keys)
            msg = (
                "associative list with keys has an element that omits all key fields "
                f"[{listed}] (and doesn't have default values for any key fields)"
            )
            raise NoKeyError(msg)
        values = [item[name] if name in item else defaults[name] for name in names]
        if all(each.__class__ is str for each in values):
            return _text_step(*names, *values)
        return f"k:{_compact(dict(zip(names, values, strict=True)))}"


class MapType:
    """A map: replaced as a whole, or merged field by field."""

    def __init__(
        self,
        load: "Callable[[], Mapping[str, FieldType]] | None" = None,
        others: "FieldType | None" = None,
        always: frozenset[str] = frozenset(),
        *,
        is_atomic: bool = False,
    ) -> None:
        """Take a function that returns the declared fields, and the type of all others.

        Without `others`, other fields are forbidden. `always` are the fields that Go
        writes also when they are empty: structs that are no pointers.
        """
        self._load = load
        self.others = others
        self.always = always
        self.is_atomic = is_atomic

    @cached_property
    def fields(self) -> "Mapping[str, FieldType]":
        """The types of the declared fields."""
        return self._load() if self._load else {}

    def of(self, name: str) -> "FieldType":
        """Return the type of a field, that of other fields if it is not declared."""
        return self.fields.get(name) or self.others or DEDUCED


class FieldType:
    """The type of a value, which may be of several forms."""

    __slots__ = ("list", "map", "scalar")

    def __init__(
        self,
        scalar: Scalar | None = None,
        map_: MapType | None = None,
        list_: ListType | None = None,
    ) -> None:
        self.scalar = scalar
        self.map = map_
        self.list = list_

    def map_of(self, value: Any) -> MapType | None:
        """Return the map type of a value that is merged by field, `None` for others."""
        if isinstance(value, dict) and self.map and not self.map.is_atomic:
            return self.map
        return None

    def list_of(self, value: Any) -> ListType | None:
        """Return the list type of a value that is merged by item, `None` for others."""
        if isinstance(value, list) and self.list and not self.list.is_atomic:
            return self.list
        return None


UNTYPED: Final = FieldType("untyped")
DEDUCED: Final = FieldType("untyped")
"""The type of an unknown value: lists are replaced as a whole."""

DEDUCED.map = MapType(others=DEDUCED)
DEDUCED.list = ListType(DEDUCED, is_atomic=True)


def indexed(items: list[Any], type_: ListType) -> dict[str, list[Any]]:
    """Return the items of a list by the steps that name them.

    It skips items without a key, as upstream does in stored objects.
    """
    found: dict[str, list[Any]] = {}
    for item in items:
        try:
            step = type_.step(item)
        except NoKeyError:
            continue
        found.setdefault(step, []).append(item)
    return found


def shown_step(step: str) -> str:
    """Return a step as messages show it: ``.name``, ``[name="c"]``, ``[="a"]``."""
    kind, _, text = step.partition(":")
    match kind:
        case "f":
            return f".{text}"
        case "k":
            pairs = json.loads(text).items()
            listed = ",".join(f"{name}={_compact(value)}" for name, value in pairs)
            return f"[{listed}]"
        case "v":
            return f"[={text}]"
    return f"[{text}]"


@lru_cache(_KEPT)
def _text_step(*names_and_values: str) -> str:
    """Return the step of an item whose keys are texts.

    For texts, msgspec writes what `_compact` does in a twentieth of the time.
    """
    count = len(names_and_values) // 2
    names, values = names_and_values[:count], names_and_values[count:]
    keys = dict(zip(names, values, strict=True))
    return f"k:{msgspec.json.encode(keys).decode()}"


def _value_step(item: Any) -> str:
    if isinstance(item, dict):
        msg = "associative list without keys has an element that's a map type"
        raise NoKeyError(msg)
    if isinstance(item, list):
        msg = "not supported: associative list with lists as elements"
        raise NoKeyError(msg)
    if item is None:
        msg = "associative list without keys has an element that's an explicit null"
        raise NoKeyError(msg)
    return f"v:{_compact(item)}"


_compact: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode
"""Encodes a value as JSON without spaces."""
