"""The messages about unexpected tokens (the parser that ANTLR makes of CEL.g4)."""

from collections.abc import Collection
from typing import Final

from .tokens import Token

_ORDER: Final = (
    *("'['", "']'", "'{'", "'}'", "'('", "')'", "'.'", "','", "'-'", "'!'", "'?'"),
    *("'true'", "'false'", "'null'", "NUM_FLOAT", "NUM_INT", "NUM_UINT", "STRING"),
    *("BYTES", "IDENTIFIER"),
)
_NO_OPERANDS: Final = frozenset(("']'", "'}'", "')'", "','", "'?'"))
_BEGINNINGS: Final = frozenset("[{(.-!")
_ENDINGS: Final = frozenset(")]}")
_AFTER_ENDINGS: Final = frozenset(
    ("", "[", "]", "{", "}", ")", ".", ",", "-", "?", ":", "+", "*", "/", "%", "in")
) | {"==", "!=", "<", "<=", ">", ">=", "&&", "||"}


def begins_operand(token: Token) -> bool:
    """Tell whether a token can begin an operand."""
    if token.kind in ("sign", "end"):
        return token.text in _BEGINNINGS and token.kind == "sign"
    return token.text != "in"


def no_operand(token: Token, following: Token, also: Collection[str]) -> str:
    """Return the message for a token that begins no operand.

    `also` are the signs that could stand in its place, too.
    """
    others = {f"'{each}'" for each in also}
    wanted = [each for each in _ORDER if each not in _NO_OPERANDS - others]
    verb = "extraneous" if begins_operand(following) else "mismatched"
    return f"Syntax error: {verb} input {_shown(token)} expecting {_set(wanted)}"


def no_sign(token: Token, following: Token, *signs: str) -> str:
    """Return the message for a token in the place of one of these signs."""
    wanted = [f"'{each}'" for each in signs]
    if token.kind != "end" and following.text in signs:
        return (
            f"Syntax error: extraneous input {_shown(token)} expecting {_set(wanted)}"
        )
    can_be_missing = len(signs) == 1 and signs[0] in _ENDINGS
    if can_be_missing and token.text in _AFTER_ENDINGS:
        return f"Syntax error: missing {wanted[0]} at {_shown(token)}"
    return f"Syntax error: mismatched input {_shown(token)} expecting {_set(wanted)}"


def no_end(token: Token, following: Token) -> str:
    """Return the message for a token after the end of the expression."""
    verb = "extraneous" if following.kind == "end" else "mismatched"
    return f"Syntax error: {verb} input {_shown(token)} expecting <EOF>"


def no_field(token: Token) -> str:
    """Return the message for a token in the place of a field's name."""
    return f"Syntax error: no viable alternative at input '.{token.text}'"


def _shown(token: Token) -> str:
    return "'<EOF>'" if token.kind == "end" else f"'{token.text}'"


def _set(wanted: Collection[str]) -> str:
    (first, *others) = wanted
    return f"{{{', '.join(wanted)}}}" if others else first
