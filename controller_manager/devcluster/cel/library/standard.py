"""Conversions, sizes, patterns and times (the standard environment of cel-go)."""

import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from controller_manager.api.scalars import OutOfRangeError, parse_in_range
from controller_manager.devcluster.cel.values import (
    MOST_INT,
    MOST_UINT,
    EvaluationError,
    TypeName,
    UInt,
    Value,
    no_overload,
    type_of,
    whole,
)
from controller_manager.devcluster.scheme.regexp import PatternProblem, compiled

from .checks import expect, parsed

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
        msg = f'time: invalid duration "{text}"'
        raise ValueError(msg)
    total = sum(float(each[1]) * _UNITS[each[2]] for each in parts)
    try:
        return sign * timedelta(microseconds=total)
    except OverflowError:
        msg = f'time: invalid duration "{text}"'
        raise ValueError(msg) from None


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
        msg = "integer overflow"
        raise EvaluationError(msg)
    return whole(int(number))


def _uint(value: Value) -> UInt:
    number = parsed(int, value) if isinstance(value, str) else value
    number = expect(number, int, float, UInt)
    if not 0 <= number <= MOST_UINT:
        msg = "unsigned integer overflow"
        raise EvaluationError(msg)
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
            return parsed_bytes(value)
        case datetime():
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case timedelta():
            return f"{text_of_double(value.total_seconds())}s"
    # URLs, addresses, networks and quantities have a text of their own.
    for name in ("geturl", "__str__"):
        if type_of(value).startswith(("kubernetes.", "net.")) and hasattr(value, name):
            return str(getattr(value, name)())
    raise no_overload()


def parsed_bytes(value: bytes) -> str:
    """Return bytes as text; raises EvaluationError if they are no UTF-8."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        msg = "invalid UTF-8 in bytes, cannot convert to string"
        raise EvaluationError(msg) from None


def text_of_double(value: float) -> str:
    """Return a double as text: ``1``, ``0.5``, ``1e+21``."""
    if value.is_integer() and abs(value) < _LEAST_EXPONENT:
        return str(int(value))
    return {"inf": "+Inf", "-inf": "-Inf", "nan": "NaN"}.get(str(value), str(value))


def _bytes(value: Value) -> bytes:
    return value if isinstance(value, bytes) else expect(value, str).encode()


def _bool(value: Value) -> bool:
    if isinstance(value, str):
        if value in ("true", "True", "TRUE", "t", "1"):
            return True
        if value in ("false", "False", "FALSE", "f", "0"):
            return False
        msg = f"type conversion error from '{value}' to 'bool'"
        raise EvaluationError(msg)
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


def _duration(value: Value) -> timedelta:
    return value if isinstance(value, timedelta) else parsed(duration_of, value)


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
        msg = f"unknown time zone {name}"
        raise EvaluationError(msg) from None


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


GLOBALS: Final[Mapping[str, Callable[..., Value]]] = {
    "bool": _bool,
    "bytes": _bytes,
    "double": _double,
    "duration": _duration,
    "dyn": lambda value: value,
    "int": _int,
    "matches": matches,
    "size": size,
    "string": _string,
    "timestamp": _timestamp,
    "type": lambda value: TypeName(type_of(value)),
    "uint": _uint,
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
}
