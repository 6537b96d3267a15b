"""The expansion of a script: its variables, and its calculations.

Only values that are one plain word are put in. All other parts with ``$`` stay as they
are, and commands with them are unknown.
"""

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

_PART: Final = re.compile(
    r"'[^']*'"  # quoted: stays as it is
    r"|\\."
    r"|\$\(\((?P<sum>[^()$`]*(?:\$\{?\w+\}?[^()$`]*)*)\)\)"
    r"|\$\(\s*expr\s+(?P<expr>[^()`]*)\)"
    r"|`\s*expr\s+(?P<old>[^`]*)`"
    r"|\$\{(?P<braced>[A-Za-z_]\w*)\}"
    r"|\$(?P<name>[A-Za-z_]\w*)",
    re.DOTALL,
)
_WORD: Final = re.compile(r"[\w./:@%+,-]*")
_TERM: Final = re.compile(r"\s*(\d{1,18}|[-+*/%]|$)")
_LEVELS: Final[Sequence[Mapping[str, Callable[[int, int], int]]]] = (
    {"+": operator.add, "-": operator.sub},
    {"*": operator.mul, "/": lambda a, b: a // b, "%": operator.mod},
)
_MOST_TERMS: Final = 100


def expanded(script: str, variables: Mapping[str, str]) -> str:
    """Return a script with the values of known variables and calculations."""

    def value(match: re.Match[str]) -> str:
        inner = match["sum"] or match["expr"] or match["old"]
        if inner is not None:
            text = expanded(inner, variables).replace("\\*", "*")
            names = re.sub(
                r"[A-Za-z_]\w*", lambda found: variables.get(found[0], "?"), text
            )
            result = calculated(names if match["sum"] else text)
            return match[0] if result is None else str(result)
        found = variables.get(match["braced"] or match["name"] or "")
        known = found is not None and _WORD.fullmatch(found)
        return found if known and found is not None else match[0]

    return _PART.sub(value, script)


def calculated(text: str) -> int | None:
    """Return the value of a sum of numbers, `None` if it has other parts."""
    terms: list[str] = []
    position = 0
    while position < len(text.rstrip()):
        match = _TERM.match(text, position)
        if match is None or len(terms) > _MOST_TERMS:
            return None
        terms.append(match[1])
        position = match.end()
    return _value(terms)


def _value(terms: list[str]) -> int | None:
    """Return the value of terms, which has the last operator of the lowest level."""
    if len(terms) == 1:
        return int(terms[0]) if terms[0].isdecimal() else None
    for level in _LEVELS:
        for number in range(len(terms) - 1, 0, -1):
            if (operation := level.get(terms[number])) is None:
                continue
            left, right = _value(terms[:number]), _value(terms[number + 1 :])
            if left is None or right is None:
                return None
            if terms[number] in "/%" and right == 0:
                return None
            return operation(left, right)
    return None
