"""Errors in times, in the words of Go.

Upstream: Parse of the package time, with the layouts of metav1.Time and
metav1.MicroTime.
"""

import re
from typing import Final

RFC3339: Final = "2006-01-02T15:04:05Z07:00"
RFC3339_MICRO: Final = "2006-01-02T15:04:05.000000Z07:00"

_ELEMENTS: Final = (
    ("2006", r"\d{4}"),
    ("-", "-"),
    ("01", r"\d\d"),
    ("-", "-"),
    ("02", r"\d\d"),
    ("T", "T"),
    ("15", r"\d\d?"),
    (":", ":"),
    ("04", r"\d\d"),
    (":", ":"),
    ("05", r"\d\d"),
)
_ZONE: Final = ("Z07:00", r"Z|[+-]\d\d:\d\d")
_OPTIONAL_FRACTION: Final = ("", r"([.,]\d+)?")
_MICROSECONDS: Final = (".000000", r"[.,]\d{6}(?!\d)")
_RANGES: Final = (("month", 2, 1, 12), ("day", 4, 1, 31), ("hour", 6, 0, 23))
_MORE_RANGES: Final = (("minute", 8, 0, 59), ("second", 10, 0, 59))


def time_problem(text: str, layout: str) -> str:
    """Return the error of a text that is no time of a layout."""
    fraction = _OPTIONAL_FRACTION if layout == RFC3339 else _MICROSECONDS
    parts = []
    rest = text
    for element, pattern in (*_ELEMENTS, fraction, _ZONE):
        match = re.match(pattern, rest, re.ASCII)
        if match is None:
            return (
                f'parsing time "{text}" as "{layout}": cannot parse "{rest}" as '
                f'"{element}"'
            )
        parts.append(match.group())
        rest = rest[match.end() :]
        if problem := _range_problem(parts):
            return f'parsing time "{text}": {problem}'
    if rest:
        return f'parsing time "{text}": extra text: "{rest}"'
    return f'parsing time "{text}": day out of range'


def _range_problem(parts: list[str]) -> str:
    """Return the error if the element that was read last is out of its range."""
    for name, index, least, most in (*_RANGES, *_MORE_RANGES):
        if index == len(parts) - 1 and not least <= int(parts[index]) <= most:
            return f"{name} out of range"
    return ""
