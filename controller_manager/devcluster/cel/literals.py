"""The values of constants in an expression (the lexer rules of CEL.g4)."""

import re
from typing import Final

from controller_manager.control.cel.syntax import SyntaxProblem, Token

from .values import MOST_INT, MOST_UINT, UInt, Value

_LEAST_TRIPLE: Final = 6
"""The length of a text with three quotes on each side, and nothing between."""
_BYTES: Final = 256

_ESCAPES: Final = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
}
_ESCAPED: Final = re.compile(
    r"\\(?:[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})"
    r"|([abfnrtv])|([\\'\"`?]))|\\|[^\\]+",
    re.DOTALL,
)


def literal_value(token: Token) -> Value:
    """Return the value of a constant; raises SyntaxProblem."""
    match token.kind:
        case "int":
            return _bounded(int(token.text, 0), MOST_INT)
        case "uint":
            return UInt(_bounded(int(token.text[:-1], 0), MOST_UINT))
        case "double":
            return float(token.text)
        case "string":
            return _text(token.text)
        case "bytes":
            return _bytes(token.text[1:])
    return {"true": True, "false": False, "null": None}[token.text]


def _bounded(number: int, most: int) -> int:
    # The number after a minus sign may be one more.
    if number > most + 1:
        msg = f"the number {number} is too large"
        raise SyntaxProblem(msg)
    return number


def _unquoted(text: str) -> tuple[str, bool]:
    """Return what stands in quotes, and whether it has no escapes."""
    is_raw = text[0] in "rR"
    text = text[1:] if is_raw else text
    width = 3 if text[:3] in ('"""', "'" * 3) and len(text) >= _LEAST_TRIPLE else 1
    return text[width:-width], is_raw


def _text(text: str) -> str:
    inner, is_raw = _unquoted(text)
    if is_raw:
        return inner
    return "".join(
        chr(code) if isinstance(code, int) else code for code in _unescaped(inner)
    )


def _bytes(text: str) -> bytes:
    inner, is_raw = _unquoted(text)
    parts = [inner] if is_raw else _unescaped(inner)
    return b"".join(
        bytes((part,)) if isinstance(part, int) and part < _BYTES else _encoded(part)
        for part in parts
    )


def _encoded(part: str | int) -> bytes:
    return (chr(part) if isinstance(part, int) else part).encode()


def _unescaped(text: str) -> list[str | int]:
    parts: list[str | int] = []
    for found in _ESCAPED.finditer(text):
        code = found[1] or found[2] or found[3]
        if code:
            parts.append(int(code, 16))
        elif found[4]:
            parts.append(int(found[4], 8))
        elif found[5] or found[6]:
            parts.append(_ESCAPES.get(found[5] or "", found[6] or ""))
        elif found[0] == "\\":
            msg = f"{text!r} has an escape that there is not"
            raise SyntaxProblem(msg)
        else:
            parts.append(found[0])
    return parts
