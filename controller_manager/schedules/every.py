"""``@every``: runs at equal distances (robfig/cron's constantdelay.go).

Its duration is read with Go's messages (time.ParseDuration).
"""

import re
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Final

from msgspec import Struct

from .fields import ScheduleError

_NANOSECONDS: Final = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_SECOND: Final = 10**9
_LONGEST: Final = 2**63 - 1
_PART: Final = re.compile(r"([0-9]*)(\.[0-9]*)?([^0-9.]*)", re.DOTALL)


def parse_delay(text: str) -> int:
    """Return the whole seconds of a duration such as ``1h30m``, at least one.

    A fraction of a second is cut off. Raises ScheduleError with Go's message.
    """
    return max(_nanoseconds(text), _SECOND) // _SECOND


def _nanoseconds(text: str) -> int:
    unsigned = text[1:] if text[:1] in ("+", "-") else text
    if unsigned == "0":
        return 0
    if not unsigned:
        raise _invalid(text)
    total = Fraction(0)
    position = 0
    while position < len(unsigned):
        part = _PART.match(unsigned, position)
        if part is None:
            raise _invalid(text)
        total += _one(part, text)
        position = part.end()
        if total > _LONGEST:
            raise _invalid(text)
    return -int(total) if text.startswith("-") else int(total)


def _one(part: re.Match[str], text: str) -> Fraction:
    """Return the nanoseconds of one number with its unit."""
    whole, fraction, unit = part[1], part[2] or "", part[3]
    if not whole and fraction in ("", "."):
        raise _invalid(text)
    if not unit:
        msg = f"time: missing unit in duration {_quoted(text)}"
        raise ScheduleError(msg)
    if unit not in _NANOSECONDS:
        msg = f"time: unknown unit {_quoted(unit)} in duration {_quoted(text)}"
        raise ScheduleError(msg)
    exact = Fraction(f"{whole or 0}{fraction.rstrip('.')}") * _NANOSECONDS[unit]
    return Fraction(int(exact))


def _invalid(text: str) -> ScheduleError:
    return ScheduleError(f"time: invalid duration {_quoted(text)}")


def _quoted(text: str) -> str:
    """Return the text in quotes, with the bytes that are not ASCII as hexadecimal."""
    escaped = "".join(
        f"\\{chr(byte)}"
        if chr(byte) in '"\\'
        else chr(byte)
        if 0x20 <= byte < 0x80  # noqa: PLR2004 - from the space to the end of ASCII
        else f"\\x{byte:02x}"
        for byte in text.encode()
    )
    return f'"{escaped}"'


class EverySchedule(Struct, frozen=True):
    """A run each `seconds`, counted from the last run."""

    seconds: int

    def next_after(self, moment: datetime) -> datetime | None:
        """Return the time that many seconds after `moment`, in UTC.

        `None` if that is after the year 9999.
        """
        return self._after(moment, 1)

    def latest_between(self, start: datetime, end: datetime) -> datetime | None:
        """Return the last time after `start` and not after `end`, `None` for none."""
        whole = start.replace(microsecond=0)
        runs = int((end - whole).total_seconds() // self.seconds)
        return self._after(start, runs) if runs > 0 else None

    def _after(self, moment: datetime, runs: int) -> datetime | None:
        whole = moment.astimezone(UTC).replace(microsecond=0)
        try:
            return whole + timedelta(seconds=self.seconds * runs)
        except OverflowError:
            return None
