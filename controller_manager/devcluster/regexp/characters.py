"""Sets of characters that have a name, and whether a character is in a set."""

import unicodedata
from typing import Final

from controller_manager.devcluster.regexp.nodes import Category, Characters, Range
from controller_manager.devcluster.regexp.problems import Flaw, PatternProblem

Part = Range | Category | Characters

ANY: Final = Characters((Range("\0", "\U0010ffff"),))
NO_NEWLINE: Final = Characters((Range("\n", "\n"),), is_negated=True)

_CLASSES: Final = {
    "alnum": "09AZaz",
    "alpha": "AZaz",
    "ascii": "\0\x7f",
    "blank": "\t\t  ",
    "cntrl": "\0\x1f\x7f\x7f",
    "digit": "09",
    "graph": "!~",
    "lower": "az",
    "print": " ~",
    "punct": "!/:@[`{~",
    "space": "\t\r  ",
    "upper": "AZ",
    "word": "09AZ__az",
    "xdigit": "09AFaf",
}
"""The classes that Go takes in brackets and colons: the ends of their ranges."""

_CATEGORIES: Final = {
    "C": "cfos",
    "L": "lmotu",
    "M": "cen",
    "N": "dlo",
    "P": "cdefios",
    "S": "ckmo",
    "Z": "lps",
}
"""The general categories of Unicode: the first letter, and what may follow it."""


def _set_of(ends: str, *, is_negated: bool = False) -> Characters:
    ranges = (Range(*ends[start : start + 2]) for start in range(0, len(ends), 2))
    return Characters(tuple(ranges), is_negated)


_DIGIT, _SPACE, _WORD = "09", "\t\n\f\r  ", _CLASSES["word"]
PERL: Final = {
    "d": _set_of(_DIGIT),
    "D": _set_of(_DIGIT, is_negated=True),
    "s": _set_of(_SPACE),
    "S": _set_of(_SPACE, is_negated=True),
    "w": _set_of(_WORD),
    "W": _set_of(_WORD, is_negated=True),
}
"""The sets that a backslash and a letter stand for."""


def named_class(text: str) -> Characters:
    """Return the set of ``[:alpha:]`` or ``[:^alpha:]``; raises PatternProblem."""
    name = text[2:-2]
    ends = _CLASSES.get(name.removeprefix("^"))
    if ends is None:
        raise PatternProblem(Flaw.CLASS_RANGE, text)
    return _set_of(ends, is_negated=name.startswith("^"))


def unicode_class(name: str, text: str, *, is_negated: bool) -> Characters:
    """Return the set of a general category, such as ``L`` or ``Nd``.

    Raises PatternProblem for any other name. Go knows those of scripts, too.
    """
    if name == "Any":
        return Characters(ANY.parts, is_negated)
    if name[0] not in _CATEGORIES or name[1:] not in ("", *_CATEGORIES[name[0]]):
        raise PatternProblem(Flaw.CLASS_RANGE, text)
    return Characters((Category(name),), is_negated)


def contains(found: Characters, character: str) -> bool:
    """Tell whether a character is in a set."""
    forms = {character}
    if found.folds:
        forms |= {character.lower(), character.upper(), character.title()}
    return any(_has(found.parts, each) for each in forms) is not found.is_negated


def _has(parts: tuple[Part, ...], character: str) -> bool:
    for part in parts:
        match part:
            case Range(first=first, last=last):
                is_in = first <= character <= last
            case Category(name=name):
                is_in = unicodedata.category(character).startswith(name)
            case Characters():
                is_in = len(character) == 1 and contains(part, character)
        if is_in:
            return True
    return False
