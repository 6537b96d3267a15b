"""Tokens and nodes of an expression, and problems as text with their place in it.

The form of the problems is that of common/error.go of cel-go.
"""

import re
from collections.abc import Iterable
from typing import Final
from typing import Literal as OneOf

from msgspec import Struct

_SHOWN: Final = 100


class Problem(Struct, frozen=True, order=True):
    """An error, and its offset in the expression."""

    at: int
    message: str


def text_of(expression: str, problems: Iterable[Problem]) -> str:
    """Return the problems of an expression, each with its line and a mark below it."""
    found = sorted(problems)[:_SHOWN]
    return "\n".join(_shown(expression, each) for each in found)


def _shown(expression: str, problem: Problem) -> str:
    before = expression[: problem.at]
    number = before.count("\n")
    column = problem.at - (before.rfind("\n") + 1)
    line = expression.split("\n")[number].replace("\t", " ")
    dots = "".join("." if each.isascii() else "\uff0e" for each in line[:column])
    mark = "^" if line[column : column + 1].isascii() else "\uff3e"
    return (
        f"ERROR: <input>:{number + 1}:{column + 1}: {problem.message}\n"
        f" | {line}\n | {dots}{mark}"
    )


class SyntaxProblem(ValueError):
    """An expression that cannot be parsed; the message is that of cel-go."""


class Token(Struct, frozen=True):
    """One token: its kind, its text, and its offset.

    The kind is ``name``, ``quoted``, the type of a literal, ``end``, or ``sign``.
    """

    kind: str
    text: str
    at: int


_STRING: Final = (
    r'(?:"""(?:[^\\]|\\.)*?"""|\'\'\'(?:[^\\]|\\.)*?\'\'\''
    r'|"(?:[^\\"\n\r]|\\.)*"|\'(?:[^\\\'\n\r]|\\.)*\')'
)
_RAW_STRING: Final = (
    r'[rR](?:"""(?:.|\n)*?"""|\'\'\'(?:.|\n)*?\'\'\''
    r'|"[^"\n\r]*"|\'[^\'\n\r]*\')'
)
_TOKEN: Final = re.compile(
    "|".join(
        (
            r"(?P<space>(?:\s|//[^\n]*)+)",
            rf"(?P<bytes>[bB](?:{_RAW_STRING}|{_STRING}))",
            rf"(?P<string>{_RAW_STRING}|{_STRING})",
            r"(?P<double>\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\.\d+(?:[eE][+-]?\d+)?)",
            r"(?P<uint>(?:0x[0-9a-fA-F]+|\d+)[uU])",
            r"(?P<int>0x[0-9a-fA-F]+|\d+)",
            r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)",
            r"(?P<quoted>`[A-Za-z0-9_.\-/ ]+`)",
            r"(?P<sign>==|!=|<=|>=|&&|\|\||[-+*/%<>!?:.,()\[\]{}])",
        )
    ),
    re.DOTALL,
)


_UNREAD: Final = re.compile(
    r"""[rR]?[bB]?[rR]?(['"])(?:[^\\\n\r]|\\.)*[\n\r]?|[=&|].?|.""", re.DOTALL
)
"""The characters that the lexer drops, with the one at which it gives up."""


def scan(text: str) -> tuple[list[Token], list[Problem]]:
    """Return the tokens, and at last one of the kind ``end``; and the errors.

    Characters that begin no token are dropped with an error.
    """
    found: list[Token] = []
    problems: list[Problem] = []
    position = 0
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None or token.lastgroup is None:
            dropped = _UNREAD.match(text, position)
            unread = dropped[0] if dropped else text[position]
            message = f"Syntax error: token recognition error at: '{unread}'"
            problems.append(Problem(position, message))
            position += len(unread)
            continue
        if token.lastgroup != "space":
            found.append(Token(token.lastgroup, token[0], position))
        position = token.end()
    return [*found, Token("end", "", position)], problems


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
