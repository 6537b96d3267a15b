"""One of the five fields of a schedule (getField of robfig/cron's parser.go)."""

import re
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from .quoting import quoted

_INTEGER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_INT64_MAX: Final = 2**63 - 1


class ScheduleError(ValueError):
    """A schedule that cannot be parsed; the message is upstream's."""


class Bounds(Struct, frozen=True):
    """The numbers that a field may have, and names for some of them."""

    low: int
    high: int
    names: Mapping[str, int] = {}


MINUTES: Final = Bounds(0, 59)
HOURS: Final = Bounds(0, 23)
DAYS_OF_MONTH: Final = Bounds(1, 31)
MONTHS: Final = Bounds(
    1,
    12,
    {
        "jan": 1,
        "feb": 2,
        "mar": 3,
        "apr": 4,
        "may": 5,
        "jun": 6,
        "jul": 7,
        "aug": 8,
        "sep": 9,
        "oct": 10,
        "nov": 11,
        "dec": 12,
    },
)
DAYS_OF_WEEK: Final = Bounds(
    0, 6, {"sun": 0, "mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6}
)


class Field(Struct, frozen=True):
    """The numbers that a field allows.

    `is_star` says that one of its parts is ``*`` or ``?`` without a step, or with the
    step 1. A field of days that is no star is an alternative to the other field of
    days, see `CronSchedule`. A field can be empty: ``,`` is accepted.
    """

    numbers: frozenset[int]
    is_star: bool = False

    def __contains__(self, number: object) -> bool:
        """Tell whether the field allows a number."""
        return number in self.numbers


def parse_field(text: str, bounds: Bounds) -> Field:
    """Return the field that `text` states, as ``1-5,*/10`` does.

    Raises ScheduleError with upstream's message.
    """
    numbers: set[int] = set()
    is_star = False
    for part in text.split(","):
        if part:
            parsed = _parse_part(part, bounds)
            numbers |= parsed.numbers
            is_star |= parsed.is_star
    return Field(frozenset(numbers), is_star)


def _parse_part(text: str, bounds: Bounds) -> Field:
    """Return the numbers of one part: a number, a range or a star, with a step."""
    whole, *steps = text.split("/")
    first, *rest = whole.split("-")
    is_star = first in ("*", "?")
    if is_star:
        # The text after a star and a hyphen is ignored: "*-x" is "*".
        start, end = bounds.low, bounds.high
    else:
        start, end = _parse_range(text, first, rest, bounds)
    step = 1
    if len(steps) == 1:
        step = _parse_number(steps[0])
        if not rest:
            # "5/10" is every tenth number from 5 on, not 5 alone.
            end = bounds.high
    elif steps:
        msg = f"too many slashes: {text}"
        raise ScheduleError(msg)
    _check(text, start, end, step, bounds)
    return Field(frozenset(range(start, end + 1, step)), is_star and step == 1)


def _parse_range(
    text: str, first: str, rest: list[str], bounds: Bounds
) -> tuple[int, int]:
    start = _parse_number(first, bounds.names)
    if not rest:
        return start, start
    if len(rest) > 1:
        msg = f"too many hyphens: {text}"
        raise ScheduleError(msg)
    return start, _parse_number(rest[0], bounds.names)


def _check(text: str, start: int, end: int, step: int, bounds: Bounds) -> None:
    if start < bounds.low:
        problem = f"beginning of range ({start}) below minimum ({bounds.low})"
    elif end > bounds.high:
        problem = f"end of range ({end}) above maximum ({bounds.high})"
    elif start > end:
        problem = f"beginning of range ({start}) beyond end of range ({end})"
    elif step == 0:
        problem = "step of range should be a positive number"
    else:
        return
    msg = f"{problem}: {text}"
    raise ScheduleError(msg)


def _parse_number(text: str, names: Mapping[str, int] | None = None) -> int:
    """Return the number that a name or digits state (strconv.Atoi)."""
    if names and (named := names.get(text.lower())) is not None:
        return named
    problem = ""
    if not _INTEGER.fullmatch(text):
        problem = "invalid syntax"
    elif not -_INT64_MAX - 1 <= int(text) <= _INT64_MAX:
        problem = "value out of range"
    if problem:
        msg = (
            f"failed to parse int from {text}: "
            f"strconv.Atoi: parsing {quoted(text)}: {problem}"
        )
        raise ScheduleError(msg)
    number = int(text)
    if number < 0:
        msg = f"negative number ({number}) not allowed: {text}"
        raise ScheduleError(msg)
    return number
