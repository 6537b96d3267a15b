"""Durations in Go's format."""

import re
from typing import Final

_UNITS: Final = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "\u03bcs": 1e-6,  # with the Greek letter instead of the sign
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
}
_DURATION_PART: Final = re.compile(
    "([0-9]+(?:\\.[0-9]*)?|\\.[0-9]+)(ns|us|µs|\u03bcs|ms|s|m|h)"
)


def parse_duration(text: str) -> float:
    """Return the seconds of a Go duration such as ``1m30s``.

    Raises ValueError for anything else.
    """
    if text in ("0", "+0", "-0"):
        return 0.0
    sign = -1.0 if text.startswith("-") else 1.0
    rest = text[1:] if text.startswith(("+", "-")) else text
    parts = _DURATION_PART.findall(rest)
    if not parts or "".join(number + unit for number, unit in parts) != rest:
        msg = f"not a duration: {text!r}; write it as 10s, 1m30s or 12h"
        raise ValueError(msg)
    seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if not seconds * 1e9 < 2**63:
        msg = f"not a duration: {text[:40]!r} is longer than 292 years"
        raise ValueError(msg)
    return sign * seconds


def format_duration(seconds: float) -> str:
    """Return `seconds` as Go prints a duration: 12h0m0s, 1.5s, 100ms."""
    if seconds < 0:
        return "-" + format_duration(-seconds)
    nanoseconds = round(seconds * 1e9)
    if nanoseconds < 10**9:
        for unit, size in (("ms", 10**6), ("µs", 10**3)):
            if nanoseconds >= size:
                return f"{_trimmed(nanoseconds / size)}{unit}"
        return f"{nanoseconds}ns" if nanoseconds else "0s"
    minutes, rest = divmod(nanoseconds, 60 * 10**9)
    text = f"{_trimmed(rest / 10**9)}s"
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{text}"
    return f"{minutes}m{text}" if minutes else text


def _trimmed(number: float) -> str:
    return f"{number:.9f}".rstrip("0").rstrip(".")
