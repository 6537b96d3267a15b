"""The functions of cel-go: conversions, patterns, times, texts, lists, sets.

`METHODS` take the value before the dot as the first argument; `GLOBALS` stand alone
or have a namespace, such as ``sets.contains``.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from itertools import pairwise
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from controller_manager.api.scalars import OutOfRangeError, parse_in_range
from controller_manager.devcluster.scheme.names import PatternProblem, compiled

from .values import (
    MOST_INT,
    MOST_UINT,
    NOTHING,
    EvaluationError,
    Maybe,
    TypeName,
    UInt,
    Value,
    add,
    are_equal,
    compare,
    contains,
    expect,
    no_overload,
    parsed,
    type_of,
    whole,
)

# Conversions, sizes, patterns and times (the standard environment of cel-go).

_UNITS: Final = {
    "ns": 1e-3,
    "us": 1.0,
    "\u00b5s": 1.0,
    "\u03bcs": 1.0,
    "ms": 1e3,
    "s": 1e6,
    "m": 60e6,
    "h": 3600e6,
}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TIME_OVERFLOW: Final = "timestamp overflow"
_LEAST_EXPONENT: Final = 1e21
"""The least number that is written with an exponent."""

_PART: Final = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|\u00b5s|\u03bcs|ms|s|m|h)")


def duration_of(text: str) -> timedelta:
    """Return the duration that a text like ``1h30m`` stands for; raises ValueError."""
    sign, rest = (-1, text[1:]) if text[:1] == "-" else (1, text.removeprefix("+"))
    if rest == "0":
        return timedelta()
    parts = list(_PART.finditer(rest))
    if not parts or "".join(each[0] for each in parts) != rest:
        raise ValueError(f'time: invalid duration "{text}"')
    total = sum(float(each[1]) * _UNITS[each[2]] for each in parts)
    try:
        return sign * timedelta(microseconds=total)
    except OverflowError:
        raise ValueError(f'time: invalid duration "{text}"') from None


def timestamp_of(text: str) -> datetime:
    """Return the time that a text stands for (RFC 3339).

    Raises ValueError for any other text, and for a time that is not in the years 1 to
    9999 of UTC.
    """
    try:
        return parse_in_range(text)
    except OutOfRangeError:
        raise ValueError(_TIME_OVERFLOW) from None


# Conversions


def _int(value: Value) -> int:
    if isinstance(value, datetime):
        return int(value.timestamp())
    if isinstance(value, timedelta):
        return round(value.total_seconds() * 1e9)
    if isinstance(value, str):
        return whole(parsed(int, value))
    number = expect(value, int, float, UInt)
    if isinstance(number, float) and not abs(number) < MOST_INT:
        raise EvaluationError("integer overflow")
    return whole(int(number))


def _uint(value: Value) -> UInt:
    number = parsed(int, value) if isinstance(value, str) else value
    number = expect(number, int, float, UInt)
    if not 0 <= number <= MOST_UINT:
        raise EvaluationError("unsigned integer overflow")
    return UInt(number)


def _double(value: Value) -> float:
    if isinstance(value, str):
        return parsed(float, value)
    return float(expect(value, int, float, UInt))


def _string(value: Value) -> str:
    match value:
        case bool():
            return str(value).lower()
        case float():
            return text_of_double(value)
        case str() | int():
            return str(value)
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                msg = "invalid UTF-8 in bytes, cannot convert to string"
                raise EvaluationError(msg) from None
        case datetime():
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case timedelta():
            return f"{text_of_double(value.total_seconds())}s"
    # URLs, addresses, networks and quantities have a text of their own.
    for name in ("geturl", "__str__"):
        if type_of(value).startswith(("kubernetes.", "net.")) and hasattr(value, name):
            return str(getattr(value, name)())
    raise no_overload()


def text_of_double(value: float) -> str:
    """Return a double as text: ``1``, ``0.5``, ``1e+21``."""
    if value.is_integer() and abs(value) < _LEAST_EXPONENT:
        return str(int(value))
    return {"inf": "+Inf", "-inf": "-Inf", "nan": "NaN"}.get(str(value), str(value))


def _bool(value: Value) -> bool:
    if isinstance(value, str):
        if value in ("true", "True", "TRUE", "t", "1"):
            return True
        if value in ("false", "False", "FALSE", "f", "0"):
            return False
        raise EvaluationError(f"type conversion error from '{value}' to 'bool'")
    return expect(value, bool)


def _timestamp(value: Value) -> datetime:
    if isinstance(value, datetime):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        try:
            return _EPOCH + timedelta(seconds=value)
        except OverflowError:
            raise EvaluationError(_TIME_OVERFLOW) from None
    return parsed(timestamp_of, value)


# Texts and sizes


def size(value: Value) -> int:
    """Return the number of characters, bytes, items or entries."""
    if not isinstance(value, str | bytes | list | dict):
        raise no_overload()
    return len(value)


def matches(text: Value, pattern: Value) -> bool:
    """Tell whether a part of a text matches a pattern in the syntax of Go."""
    try:
        return compiled(expect(pattern, str)).matches(expect(text, str))
    except PatternProblem as error:
        raise EvaluationError(str(error)) from None


def _find(text: Value, pattern: Value) -> str:
    found = find_all(text, pattern, 1)
    return found[0] if found else ""


def find_all(text: Value, pattern: Value, count: Value = -1) -> list[str]:
    """Return the parts of a text that match, at most `count` of them if not negative.

    An empty part right after another one does not count.
    """
    given, most = expect(text, str), expect(count, int)
    try:
        wanted = compiled(expect(pattern, str))
    except PatternProblem as error:
        raise EvaluationError(str(error)) from None
    parts: list[str] = []
    last = -1
    for start, end in wanted.spans(given):
        if 0 <= most <= len(parts):
            break
        if end > start or start != last:
            parts.append(given[start:end])
        last = end
    return parts


# Times


def _zone(name: str) -> tzinfo:
    found = re.fullmatch(r"([+-]?)(\d\d):(\d\d)", name)
    if found:
        offset = timedelta(hours=int(found[2]), minutes=int(found[3]))
        return timezone(-offset if found[1] == "-" else offset)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        raise EvaluationError(f"unknown time zone {name}") from None


def _part_of_time(part: Callable[[datetime], int]) -> Callable[..., int]:
    def function(value: Value, zone: Value = "UTC") -> int:
        found = expect(value, datetime)
        return part(found.astimezone(_zone(expect(zone, str))))

    return function


def _part_of_either(
    part: Callable[[datetime], int], of_duration: Callable[[timedelta], float]
) -> Callable[..., int]:
    of_time = _part_of_time(part)

    def function(value: Value, *zone: Value) -> int:
        if isinstance(value, timedelta) and not zone:
            return math.trunc(of_duration(value))
        return of_time(value, *zone)

    return function


# Functions on texts (ext/strings.go of cel-go).

_SPACES: Final = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008"
    "\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)

_MOST_DIGITS: Final = 1000
"""The number of digits after the point of a formatted number."""


def _char_at(text: Value, index: Value) -> str:
    found, number = expect(text, str), expect(index, int)
    if not 0 <= number <= len(found):
        raise EvaluationError(f"index out of range: {number}")
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
            raise EvaluationError(f"index out of range: {number}")
    if first > last:
        raise EvaluationError(f"invalid substring range. start: {first}, end: {last}")
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
            raise EvaluationError(f"precision {precision} is too large")
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
    return str(GLOBALS["string"](value))


# Functions on lists (pkg/cel/library of the API server) and sets (ext/sets.go).


def _is_sorted(values: Value) -> bool:
    items = expect(values, list)
    return all(compare(one, other) <= 0 for one, other in pairwise(items))


def _sum(values: Value) -> Value:
    items = expect(values, list)
    if not items:
        return 0
    total: Value = timedelta() if isinstance(items[0], timedelta) else type(items[0])(0)
    for each in items:
        total = add(total, each)
    return total


def _extreme(name: str, sign: int) -> Callable[[Value], Value]:
    def function(values: Value) -> Value:
        items = expect(values, list)
        if not items:
            raise EvaluationError(f"{name} called on empty list")
        best = items[0]
        for each in items[1:]:
            if compare(each, best) * sign > 0:
                best = each
        return best

    return function


def _index_of(value: Value, item: Value, start: Value = 0) -> int:
    """Return the first index of a part of a text or of an item, -1 without one."""
    if isinstance(value, str):
        return value.find(expect(item, str), expect(start, int))
    found = enumerate(expect(value, list))
    return next((number for number, each in found if are_equal(each, item)), -1)


def _last_index_of(value: Value, item: Value, start: Value = None) -> int:
    """Return the last index of a part of a text or of an item, -1 without one."""
    if not isinstance(value, str):
        items = expect(value, list)
        found = (number for number, each in enumerate(items) if are_equal(each, item))
        return max(found, default=-1)
    wanted = expect(item, str)
    end = len(value) if start is None else expect(start, int) + len(wanted)
    return value.rfind(wanted, 0, end)


# Sets


def _has_all(one: Value, other: Value) -> bool:
    return all(contains(expect(one, list), each) for each in expect(other, list))


# Values that may be absent (cel/library.go of cel-go, OptionalTypes).


def _value(optional: Value) -> Value:
    found = expect(optional, Maybe)
    if not found.values:
        raise EvaluationError("optional.none() dereference")
    return found.values[0]


def _is_zero(value: Value) -> bool:
    return value is None or (not value and not isinstance(value, Maybe))


GLOBALS: Final[Mapping[str, Callable[..., Value]]] = {
    "bool": _bool,
    "bytes": lambda value: (
        value if isinstance(value, bytes) else expect(value, str).encode()
    ),
    "double": _double,
    "duration": lambda value: (
        value if isinstance(value, timedelta) else parsed(duration_of, value)
    ),
    "dyn": lambda value: value,
    "int": _int,
    "matches": matches,
    "size": size,
    "string": _string,
    "timestamp": _timestamp,
    "type": lambda value: TypeName(type_of(value)),
    "uint": _uint,
    "sets.contains": _has_all,
    "sets.equivalent": lambda one, other: _has_all(one, other) and _has_all(other, one),
    "sets.intersects": lambda one, other: any(
        contains(expect(one, list), each) for each in expect(other, list)
    ),
    "optional.none": lambda: NOTHING,
    "optional.of": lambda value: Maybe((value,)),
    "optional.ofNonZeroValue": lambda value: (
        NOTHING if _is_zero(value) else Maybe((value,))
    ),
}


METHODS: Final[Mapping[str, Callable[..., Value]]] = {
    "contains": lambda text, part: expect(part, str) in expect(text, str),
    "endsWith": lambda text, part: expect(text, str).endswith(expect(part, str)),
    "startsWith": lambda text, part: expect(text, str).startswith(expect(part, str)),
    "find": _find,
    "findAll": find_all,
    "matches": matches,
    "size": size,
    "getDate": _part_of_time(lambda time: time.day),
    "getDayOfMonth": _part_of_time(lambda time: time.day - 1),
    "getDayOfWeek": _part_of_time(lambda time: time.isoweekday() % 7),
    "getDayOfYear": _part_of_time(lambda time: time.timetuple().tm_yday - 1),
    "getFullYear": _part_of_time(lambda time: time.year),
    "getMonth": _part_of_time(lambda time: time.month - 1),
    "getHours": _part_of_either(
        lambda time: time.hour, lambda found: found.total_seconds() / 3600
    ),
    "getMinutes": _part_of_either(
        lambda time: time.minute, lambda found: found.total_seconds() / 60
    ),
    "getSeconds": _part_of_either(
        lambda time: time.second, lambda found: found.total_seconds()
    ),
    "getMilliseconds": _part_of_either(
        lambda time: time.microsecond // 1000,
        lambda found: found.total_seconds() * 1000,
    ),
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
    "indexOf": _index_of,
    "isSorted": _is_sorted,
    "lastIndexOf": _last_index_of,
    "max": _extreme("max", 1),
    "min": _extreme("min", -1),
    "sum": _sum,
    "hasValue": lambda optional: bool(expect(optional, Maybe).values),
    "or": lambda one, other: one if expect(one, Maybe).values else expect(other, Maybe),
    "orValue": lambda one, other: one.values[0] if expect(one, Maybe).values else other,
    "value": _value,
}
