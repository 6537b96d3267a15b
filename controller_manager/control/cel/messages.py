"""Problems as text, with the place in the expression (common/error.go of cel-go)."""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

_SHOWN: Final = 100
_NARROW, _WIDE = ".", "\uff0e"
_HERE, _WIDE_HERE = "^", "\uff3e"


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
    dots = "".join(_NARROW if each.isascii() else _WIDE for each in line[:column])
    mark = _HERE if line[column : column + 1].isascii() else _WIDE_HERE
    return (
        f"ERROR: <input>:{number + 1}:{column + 1}: {problem.message}\n"
        f" | {line}\n | {dots}{mark}"
    )
