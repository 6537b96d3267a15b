"""Functions on texts (ext/strings.go of cel-go)."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from controller_manager.devcluster.cel.values import EvaluationError, Value, no_overload

from .checks import expect
from .standard import GLOBALS as STANDARD

_SPACES: Final = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008"
    "\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)

_MOST_DIGITS: Final = 1000
"""The number of digits after the point of a formatted number."""


def _char_at(text: Value, index: Value) -> str:
    found, number = expect(text, str), expect(index, int)
    if not 0 <= number <= len(found):
        msg = f"index out of range: {number}"
        raise EvaluationError(msg)
    return found[number : number + 1]


def _replace(text: Value, old: Value, new: Value, count: Value = -1) -> str:
    return expect(text, str).replace(
        expect(old, str), expect(new, str), expect(count, int)
    )


def _split(text: Value, separator: Value, count: Value = -1) -> list[Value]:
    found, sign, most = expect(text, str), expect(separator, str), expect(count, int)
    if most == 0:
        return []
    if sign:
        return [*found.split(sign, most - 1 if most > 0 else -1)]
    if most < 0 or most >= len(found):
        return [*found]
    return [*found[: most - 1], found[most - 1 :]]


def _substring(text: Value, start: Value, end: Value = None) -> str:
    found, first = expect(text, str), expect(start, int)
    last = len(found) if end is None else expect(end, int)
    for number in (first, last):
        if not 0 <= number <= len(found):
            msg = f"index out of range: {number}"
            raise EvaluationError(msg)
    if first > last:
        msg = f"invalid substring range. start: {first}, end: {last}"
        raise EvaluationError(msg)
    return found[first:last]


def _join(values: Value, separator: Value = "") -> str:
    return expect(separator, str).join(
        expect(each, str) for each in expect(values, list)
    )


def _lower(text: Value) -> str:
    return "".join(
        each.lower() if each.isascii() else each for each in expect(text, str)
    )


def _upper(text: Value) -> str:
    return "".join(
        each.upper() if each.isascii() else each for each in expect(text, str)
    )


# format


def _format(text: Value, arguments: Value) -> str:
    values = iter(expect(arguments, list))
    return "".join(_formatted(expect(text, str), values))


def _formatted(text: str, values: Iterator[Value]) -> Iterator[str]:
    position = 0
    while (start := text.find("%", position)) >= 0:
        yield text[position:start]
        if text[start + 1 : start + 2] == "%":
            yield "%"
            position = start + 2
            continue
        end = start + 1
        while end < len(text) and (text[end] == "." or text[end].isdigit()):
            end += 1
        verb, precision = text[end : end + 1], text[start + 1 : end].removeprefix(".")
        digits = int(precision[:4]) if precision else 6
        if digits > _MOST_DIGITS:
            msg = f"precision {precision} is too large"
            raise EvaluationError(msg)
        try:
            yield _clause(verb, digits, next(values))
        except StopIteration:
            msg = f"index {text[:start].count('%')} out of range"
            raise EvaluationError(msg) from None
        position = end + 1
    yield text[position:]


def _clause(verb: str, precision: int, value: Value) -> str:
    match verb:
        case "s":
            return _shown(value)
        case "d" if isinstance(value, int) and not isinstance(value, bool):
            return str(int(value))
        case "f" | "e" if isinstance(value, int | float):
            return f"{float(value):.{precision}{verb}}"
        case "b" | "o" | "x" | "X" if isinstance(value, int):
            return f"{value:{verb}}"
        case "x" | "X" if isinstance(value, str | bytes):
            digits = (value.encode() if isinstance(value, str) else value).hex()
            return digits.upper() if verb == "X" else digits
    msg = f'could not parse formatting clause: unrecognized formatting clause "{verb}"'
    raise EvaluationError(msg)


def _shown(value: Value) -> str:
    match value:
        case None:
            return "null"
        case list():
            return f"[{', '.join(map(_shown, value))}]"
        case dict():
            pairs = sorted(
                f"{_shown(name)}: {_shown(each)}" for name, each in value.items()
            )
            return f"{{{', '.join(pairs)}}}"
    return str(STANDARD["string"](value))


def first_index(value: Value, part: Value, start: Value = 0) -> int:
    """Return the first index of a part in a text, -1 if the text does not have it."""
    if isinstance(value, str):
        return value.find(expect(part, str), expect(start, int))
    raise no_overload()


def last_index(value: Value, part: Value, start: Value = None) -> int:
    """Return the last index of a part in a text, -1 if the text does not have it."""
    if not isinstance(value, str):
        raise no_overload()
    wanted = expect(part, str)
    if start is None:
        return value.rfind(wanted)
    return value.rfind(wanted, 0, expect(start, int) + len(wanted))


METHODS: Final[Mapping[str, Callable[..., Value]]] = {
    "charAt": _char_at,
    "format": _format,
    "join": _join,
    "lowerAscii": _lower,
    "replace": _replace,
    "reverse": lambda text: expect(text, str)[::-1],
    "split": _split,
    "substring": _substring,
    "trim": lambda text: expect(text, str).strip(_SPACES),
    "upperAscii": _upper,
}
