"""The tokens of an expression (the lexer rules of CEL.g4)."""

import re
from typing import Final

from msgspec import Struct

from .messages import Problem


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
