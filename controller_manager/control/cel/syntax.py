"""The nodes of an expression.

`at` is the offset in the text to which an error about the node refers, as in cel-go:
the dot of a selection, the operator of an operation, the parenthesis of a call.
"""

from typing import Literal as OneOf

from msgspec import Struct

CollectionKind = OneOf["list", "map", "message"]


class Literal(Struct, frozen=True):
    """A constant; `type` is its type's name in CEL."""

    at: int
    type: str


class Identifier(Struct, frozen=True):
    """A name."""

    at: int
    name: str


class Selection(Struct, frozen=True):
    """``operand.field``; `is_optional` for ``operand.?field``.

    `is_quoted` says that the field is written in backquotes.
    """

    at: int
    operand: "Node"
    field: str
    is_optional: bool = False
    is_quoted: bool = False


class Indexing(Struct, frozen=True):
    """``operand[index]``, or ``operand[?index]``."""

    at: int
    operand: "Node"
    index: "Node"
    is_optional: bool = False


class Call(Struct, frozen=True):
    """``function(arguments)``, or ``target.function(arguments)``."""

    at: int
    target: "Node | None"
    function: str
    arguments: "tuple[Node, ...]"


class Operation(Struct, frozen=True):
    """An operator with one operand, two or three."""

    at: int
    operator: str
    operands: "tuple[Node, ...]"


class Collection(Struct, frozen=True):
    """A list, map or message; `parts` are its items, keys and values.

    `optional` are the numbers of the items and values that stand for nothing if they
    are absent. `names` are the fields of a message, whose values are its parts; `type`
    is its type, with dots, and "" if it is none that can be.
    """

    at: int
    parts: "tuple[Node, ...]"
    kind: CollectionKind = "list"
    optional: tuple[int, ...] = ()
    names: tuple[str, ...] = ()
    type: str = ""


Node = Literal | Identifier | Selection | Indexing | Call | Operation | Collection
