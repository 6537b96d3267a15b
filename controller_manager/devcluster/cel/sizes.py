"""The sizes that values can have, for estimates of costs (checker/cost.go of cel-go).

The size of a text is its length, that of a list or a map the number of its entries.
"""

from collections.abc import Mapping
from math import ceil
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from controller_manager.control.cel.types import DYN, Scalar, Type

MOST: Final = 2**64 - 1
"""The size of a value that has no bound."""


class Size(Struct, frozen=True):
    """The least and the greatest size that a value can have."""

    least: int
    most: int

    def plus(self, other: "Size") -> "Size":
        """Return the size of two values one after the other."""
        least, most = self.least + other.least, self.most + other.most
        return Size(min(MOST, least), min(MOST, most))

    def times(self, other: "Size") -> "Size":
        """Return the size of as many values as the other size says."""
        least, most = self.least * other.least, self.most * other.most
        return Size(min(MOST, least), min(MOST, most))

    def or_other(self, other: "Size") -> "Size":
        """Return the size of one of two values."""
        return Size(min(self.least, other.least), max(self.most, other.most))

    def cost(self, factor: float) -> int:
        """Return the greatest cost, at so much for each unit."""
        return ceil(self.most * factor)


ONE: Final = Size(1, 1)
UNKNOWN: Final = Size(0, MOST)


class Bounds(Struct, frozen=True):
    """The greatest size of a value that a schema describes, and those of its parts.

    `least_bytes` is the length of its shortest form in JSON. `keys` tells whether it is
    a map, `fields` are those of an object.
    """

    most: int
    least_bytes: int
    item: "Bounds | None" = None
    is_map: bool = False
    fields: "Mapping[str, Bounds]" = {}


_KEY: Final = Bounds(0, 2)

KEYS, ITEMS = "@keys", "@items"
"""The steps of a path to any key of a map, and to any item or value."""


def size_at(root: Bounds, path: tuple[str, ...]) -> Size | None:
    """Return the size of the part at a path, `None` if the schema says nothing of it.

    The first step of a path is the name of a variable.
    """
    found = root
    for step in path[1:]:
        if step == ITEMS:
            inner = found.item
        elif step == KEYS:
            inner = _KEY if found.is_map else None
        else:
            inner = found.fields.get(step)
        if inner is None:
            return None
        found = inner
    return Size(0, found.most) if path else None


class Estimate(Struct, frozen=True):
    """The cost of an expression at most, and all that is known of its value.

    `path` leads to it in the schema, and is empty if it is not a part of an object.
    `key` and `item` are the sizes of the entries of a list or map that the expression
    itself makes.
    """

    cost: int
    type: Type = DYN
    path: tuple[str, ...] = ()
    known_size: Size | None = None
    item: Size | None = None
    key: Size | None = None

    @property
    def size(self) -> Size:
        """The size of the value."""
        return self.known_size or UNKNOWN

    def costing(self, cost: int) -> "Estimate":
        """Return the same value at another cost."""
        return replace(self, cost=cost)


_SIZELESS: Final = frozenset(("string", "bytes", "null_type", "type"))


def is_single(type_: Type) -> bool:
    """Tell whether all values of a type have the size 1."""
    return isinstance(type_, Scalar) and type_.name not in _SIZELESS
