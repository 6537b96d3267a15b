"""Times, whole numbers and int-or-percent values, as Go reads and writes them.

Users write times and numbers into the data of secrets, into annotations and labels, and
into expressions. Go accepts some texts that Python refuses, and refuses some that
Python accepts. The functions here accept exactly the texts that Go accepts. Upstream:
metav1.Time, and pkg/util/intstr of apimachinery.
"""

import re
from datetime import UTC, date, datetime, timedelta
from typing import Final

EARLIEST: Final = datetime(300, 1, 1, tzinfo=UTC)
LATEST: Final = datetime(9700, 1, 1, tzinfo=UTC)
"""The first and the last time that `parse_time` returns.

Between them, a duration of Go (292 years at most) can be added to any time.
"""

_FIRST: Final = datetime.min.replace(tzinfo=UTC)
_LAST: Final = datetime.max.replace(tzinfo=UTC)


_LEAP_YEAR: Final = 2000
_SHOWN: Final = 100
"""Characters of a malformed text that an error shows."""

_CANONICAL: Final = re.compile(
    r"\d{4}-\d\d-\d\dT(?:[01]\d|2[0-3]):\d\d:\d\d(?:\.\d+)?Z", re.ASCII
)
"""The form in which the API server writes times; Python reads it as Go does."""

_RFC3339: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d?):(\d\d):(\d\d)(?:[.,](\d+))?"
    r"(?:Z|([+-])(\d\d):(\d\d))",
    re.ASCII,
)
_DAY: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)", re.ASCII)
_WRITTEN_BEYOND: Final = re.compile(
    r"(?:(-)\d{4,}|\d{5,})-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z", re.ASCII
)
"""The form in which Go writes a time before the year 0, or after the year 9999."""


class OutOfRangeError(ValueError):
    """A time in UTC before the year 1 or after the year 9999.

    `nearest` is the nearest time that Python can hold.
    """

    def __init__(self, nearest: datetime) -> None:
        super().__init__("the time is before the year 1 or after the year 9999")
        self.nearest = nearest


def parse_rfc3339(text: str) -> datetime:
    """Return the time that a text states, or the nearest that Python can hold.

    Otherwise as `parse_in_range`.
    """
    try:
        return parse_in_range(text)
    except OutOfRangeError as error:
        return error.nearest


def parse_in_range(text: str) -> datetime:
    """Return the time in UTC that a text states, by the rules of Go's time.Parse.

    A fraction of a second is cut off after microseconds (Go: after nanoseconds).
    Raises ValueError for a text that Go refuses, and OutOfRangeError for a time that
    Python cannot hold. Upstream: the layout RFC3339 of Go's src/time/format.go.
    """
    if _CANONICAL.fullmatch(text) is not None:
        try:
            return datetime.fromisoformat(text)  # 0.5 microseconds instead of 2
        except ValueError:
            pass  # the year 0, or no such day
    return _parse_any_form(text)


def _parse_any_form(text: str) -> datetime:
    found = _RFC3339.fullmatch(text)
    if found is None:
        raise _malformed(text)
    year, month, day, hour, minute, second = map(int, found.groups()[:6])
    microsecond = int((found[7] or "")[:6].ljust(6, "0"))
    sign, hours, minutes = found[8], int(found[9] or 0), int(found[10] or 0)
    if hours > 24 or minutes > 60:  # noqa: PLR2004 - Go lets both be reached
        raise _malformed(text)
    try:
        there = datetime(
            *(year or _LEAP_YEAR, month, day, hour, minute, second, microsecond),
            tzinfo=UTC,
        )
    except ValueError:
        raise _malformed(text) from None
    offset = (hours * 60 + minutes) * 60
    seconds = offset if sign == "-" else -offset
    if year:
        try:
            return there + timedelta(seconds=seconds)
        except OverflowError:
            raise OutOfRangeError(_LAST if seconds > 0 else _FIRST) from None
    found_at = there + timedelta(seconds=seconds)
    if found_at.year > _LEAP_YEAR:
        return found_at.replace(year=1)
    raise OutOfRangeError(_FIRST)


def parse_time(text: str) -> datetime:
    """Return the time that a field of an object states, in UTC.

    For a time before `EARLIEST` or after `LATEST` it returns `EARLIEST` or `LATEST`,
    also if Go has written the year with more than four digits. Raises ValueError if the
    text is no time of RFC 3339, which no API server written in Go sends.
    """
    if (beyond := _WRITTEN_BEYOND.fullmatch(text)) is not None:
        return EARLIEST if beyond[1] else LATEST
    return min(max(parse_rfc3339(text), EARLIEST), LATEST)


def parse_day(text: str) -> date | None:
    """Return the day that a text names as 2006-01-02, `None` if Go refuses the text.

    Python has no year 0: a day of it is the first day of the year 1.
    """
    found = _DAY.fullmatch(text)
    if found is None:
        return None
    year, month, day = map(int, found.groups())
    try:
        named = date(year or _LEAP_YEAR, month, day)
    except ValueError:
        return None
    return named if year else date.min


def seconds_after(instant: datetime, seconds: float) -> datetime:
    """Return the time so many seconds after an instant, which is in UTC.

    The seconds may be negative. If Python cannot hold the result, it returns the
    nearest time that Python can hold: many fields with seconds may be any number of 64
    bits.
    """
    try:
        return instant + timedelta(seconds=seconds)
    except OverflowError:
        return _LAST if seconds > 0 else _FIRST


def format_time(instant: datetime) -> str:
    """Return `instant` as text, to the second as metav1.Time."""
    return instant.astimezone(UTC).isoformat(timespec="seconds")[:-6] + "Z"


def format_micro_time(instant: datetime) -> str:
    """Return `instant` as text, to the microsecond as metav1.MicroTime."""
    return instant.astimezone(UTC).isoformat(timespec="microseconds")[:-6] + "Z"


def _malformed(text: str) -> ValueError:
    shown = text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
    return ValueError(f"{shown!r} is no time of RFC 3339")


_FORM: Final = re.compile(r"([+-]?)0*([0-9]{1,19})", re.ASCII)


def parse_int(text: str, bits: int) -> int | None:
    """Return a decimal number that fits into so many bits; `None` for another text.

    Upstream: strconv.ParseInt with base 10. It takes a sign and zeros in front of the
    number. Python alone would also take spaces, underscores and digits of other
    scripts, and raise an exception for more than 4,300 digits.
    """
    match = _FORM.fullmatch(text)
    if match is None:
        return None
    number = int(match[1] + match[2])
    return number if -(2 ** (bits - 1)) <= number < 2 ** (bits - 1) else None


IntOrString = int | str


class IntOrStringError(ValueError):
    """A value that is neither an integer nor a percentage."""


def scaled_value(value: IntOrString, total: int, *, round_up: bool) -> int:
    """Return an integer unchanged, and a percentage as its share of `total`.

    3 of any total is 3; "25%" of 10 is 2.5: 3 rounded up and 2 rounded down.
    Raises IntOrStringError for a string that is not a percentage.
    """
    if isinstance(value, int):
        return value
    match = re.fullmatch(r"(-?\d+)%", value)
    if match is None:
        msg = f"invalid value {value!r}: neither an integer nor a percentage"
        raise IntOrStringError(msg)
    hundredths = int(match.group(1)) * total
    return -(-hundredths // 100) if round_up else hundredths // 100
