"""The nodes of a pattern."""

from typing import Literal

from msgspec import Struct

Place = Literal[
    "text start",
    "text end",
    "line start",
    "line end",
    "word boundary",
    "no word boundary",
]


class Range(Struct, frozen=True):
    """The characters from `first` to `last`."""

    first: str
    last: str


class Category(Struct, frozen=True):
    """The characters whose Unicode category begins with `name`."""

    name: str


class Characters(Struct, frozen=True):
    """One character of a set, or none of it if the set is negated.

    `folds` says that case does not matter.
    """

    parts: "tuple[Range | Category | Characters, ...]"
    is_negated: bool = False
    folds: bool = False


class Assertion(Struct, frozen=True):
    """A place in the text, without a character."""

    place: Place


class Sequence(Struct, frozen=True):
    """One node after the other."""

    nodes: "tuple[Node, ...]"


class Choice(Struct, frozen=True):
    """One of several nodes."""

    nodes: "tuple[Node, ...]"


class Repeat(Struct, frozen=True):
    """A node several times; `most` is `None` without a limit.

    It is repeated as often as possible, or as seldom as possible if it `is_lazy`.
    """

    node: "Node"
    least: int
    most: int | None
    is_lazy: bool = False


Node = Characters | Assertion | Sequence | Choice | Repeat
