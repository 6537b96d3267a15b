"""Schedules from text (ParseStandard of robfig/cron's parser.go)."""

import re
from datetime import UTC, tzinfo
from typing import Final

from .cron import CronSchedule
from .every import EverySchedule, parse_delay
from .fields import (
    DAYS_OF_MONTH,
    DAYS_OF_WEEK,
    HOURS,
    MINUTES,
    MONTHS,
    ScheduleError,
    parse_field,
)
from .zones import ZoneError, load_zone

Schedule = CronSchedule | EverySchedule

_EVERY: Final = "@every "
_NAMED: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_BOUNDS: Final = (MINUTES, HOURS, DAYS_OF_MONTH, MONTHS, DAYS_OF_WEEK)
_SPACE: Final = r"\t\n\v\f\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
"""White space as Go sees it; Python counts four control characters more."""
_WORDS: Final = re.compile(f"[^{_SPACE}]+")
_ENDS: Final = re.compile(f"^[{_SPACE}]+|[{_SPACE}]+$")


def names_a_zone(text: str) -> bool:
    """Tell whether a schedule seems to name a zone; then the cron job's own is ignored.

    As upstream, it looks for the letters TZ anywhere in the text.
    """
    return "TZ" in text


def parse_in_zone(text: str, time_zone: str | None, local: tzinfo = UTC) -> Schedule:
    """Return the schedule of a cron job, in its time zone, or in `local` without one.

    A zone in the schedule has precedence, but the time zone must exist nevertheless.
    Raises ZoneError and ScheduleError (formatSchedule of pkg/controller/cronjob).
    """
    if time_zone is None:
        return parse_schedule(text, local)
    load_zone(time_zone, local)
    if names_a_zone(text):
        return parse_schedule(text, local)
    return parse_schedule(f"TZ={time_zone} {text}", local)


def parse_schedule(text: str, local: tzinfo = UTC) -> Schedule:
    """Return the schedule that `text` states, in `local` if it names no zone.

    The text has five fields, or a descriptor such as ``@daily``, or ``@every 1h30m``.
    ``TZ=Europe/Berlin`` or ``CRON_TZ=Europe/Berlin`` and a space may precede it. Raises
    ScheduleError with upstream's message.
    """
    if not text:
        msg = "empty spec string"
        raise ScheduleError(msg)
    zone, text = _split_zone(text, local)
    if text.startswith(_EVERY):
        try:
            return EverySchedule(parse_delay(text.removeprefix(_EVERY)))
        except ScheduleError as error:
            msg = f"failed to parse duration {text}: {error}"
            raise ScheduleError(msg) from error
    if text.startswith("@"):
        if text not in _NAMED:
            msg = f"unrecognized descriptor: {text}"
            raise ScheduleError(msg)
        text = _NAMED[text]
    fields = _WORDS.findall(text)
    if len(fields) != len(_BOUNDS):
        found = f"found {len(fields)}: [{' '.join(fields)}]"
        msg = f"expected exactly {len(_BOUNDS)} fields, {found}"
        raise ScheduleError(msg)
    minutes, hours, days_of_month, months, days_of_week = map(
        parse_field, fields, _BOUNDS
    )
    return CronSchedule(minutes, hours, days_of_month, months, days_of_week, zone)


def _split_zone(text: str, local: tzinfo) -> tuple[tzinfo, str]:
    """Return the zone that the text begins with, and the rest."""
    if not text.startswith(("TZ=", "CRON_TZ=")):
        return local, text
    prefix, space, rest = text.partition(" ")
    if not space:
        # Upstream's parser panics here, and its caller turns that into this error.
        msg = "invalid schedule format: runtime error: slice bounds out of range [:-1]"
        raise ScheduleError(msg)
    name = prefix.partition("=")[2]
    try:
        zone = load_zone(name, local)
    except ZoneError as error:
        msg = f"provided bad location {name}: {error}"
        raise ScheduleError(msg) from error
    return zone, _ENDS.sub("", rest)
