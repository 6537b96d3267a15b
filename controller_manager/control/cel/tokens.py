"""The tokens of an expression (the lexer rules of CEL.g4)."""

import re
from collections.abc import Iterator
from typing import Final

from msgspec import Struct


class SyntaxProblem(ValueError):  # noqa: N818 - a flaw of a text
    """An expression that cannot be parsed; the message names the place."""


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


def tokens(text: str) -> Iterator[Token]:
    """Yield the tokens, and at last one of the kind ``end``.

    Raises SyntaxProblem for a character that begins none.
    """
    position = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None or found.lastgroup is None:
            msg = f"no token begins at offset {position}"
            raise SyntaxProblem(msg)
        if found.lastgroup != "space":
            yield Token(found.lastgroup, found[0], position)
        position = found.end()
    yield Token("end", "", position)
