"""Finds the next time that five fields of a schedule match (robfig/cron's spec.go).

The search moves a time by the calendar, as the clocks of its zone show it.
"""

from datetime import UTC, datetime, timedelta, tzinfo
from datetime import UTC as _UTC
from typing import Final

from msgspec import Struct

from .fields import Field

_HOUR: Final = 3600


class WallClock:
    """A moment that can be moved by elapsed time and by the calendar of a zone.

    `instant` has seconds since 1970 in UTC, `wall` the time on the clocks of the zone.
    """

    def __init__(self, instant: int, zone: tzinfo) -> None:
        self._zone = zone
        self.instant = instant
        self.wall = datetime.fromtimestamp(instant, zone)

    def add_seconds(self, seconds: int) -> None:
        """Move by elapsed time."""
        self.instant += seconds
        self.wall = datetime.fromtimestamp(self.instant, self._zone)

    def add_hours(self, hours: int) -> None:
        """Move by elapsed hours."""
        self.add_seconds(hours * _HOUR)

    def add_day(self) -> None:
        """Move to the same time of the next day."""
        self._show(self.wall.replace(tzinfo=None) + timedelta(days=1))

    def add_month(self) -> None:
        """Move to the same day and time of the next month."""
        wall = self.wall.replace(tzinfo=None)
        years, month = divmod(wall.month, 12)
        first = wall.replace(year=wall.year + years, month=month + 1, day=1)
        # The 31st of a month with 30 days is the first of the month after it.
        self._show(first + timedelta(days=wall.day - 1))

    def to_first_of_month(self) -> None:
        """Move back to the start of the month."""
        self._show(self._start_of_day().replace(day=1))

    def to_start_of_day(self) -> None:
        """Move back to the start of the day."""
        self._show(self._start_of_day())

    def to_start_of_hour(self) -> None:
        """Move back to the start of the hour."""
        self._show(self._start_of_day().replace(hour=self.wall.hour))

    def to_start_of_minute(self) -> None:
        """Move back to the start of the minute, of elapsed time."""
        self.add_seconds(-(self.instant % 60))

    def _start_of_day(self) -> datetime:
        return datetime(self.wall.year, self.wall.month, self.wall.day)  # noqa: DTZ001 - a wall clock

    def _show(self, wall: datetime) -> None:
        """Move to the moment when clocks show `wall` (Go's time.Date).

        The offset is that of the zone at the time that `wall` would be in UTC; if
        that leads across a change of the clocks, the offset on the other side of it.
        So a time that occurs twice is mostly the first one, and a time that a change
        skips is moved by the size of the change.
        """
        as_if_utc = int(wall.replace(tzinfo=_UTC).timestamp())
        guess = as_if_utc - self._offset(as_if_utc)
        instant = as_if_utc - self._offset(guess)
        self.add_seconds(instant - self.instant)

    def _offset(self, instant: int) -> int:
        offset = datetime.fromtimestamp(instant, self._zone).utcoffset()
        return int((offset or timedelta()).total_seconds())


_YEARS: Final = 5
"""The years ahead in which a match is searched."""
_LAST_YEAR: Final = 9998
"""Python knows no time after 9999."""
_JANUARY: Final = 1
_NOON: Final = 12


class CronSchedule(Struct, frozen=True):
    """A schedule of five fields, in a time zone.

    If neither field of days is a star, a day matches if one of them allows it; else
    both must allow it.
    """

    minutes: Field
    hours: Field
    days_of_month: Field
    months: Field
    days_of_week: Field
    zone: tzinfo = UTC

    def next_after(self, moment: datetime) -> datetime | None:
        """Return the first time after `moment` at which a run is due, in UTC.

        `None` if there is no such time within five years. The search takes the same
        steps as upstream's, because the steps decide the result where clocks change:
        a time that is skipped has no run, a time that occurs twice has two runs, and a
        day without midnight has no run at midnight and, if the search steps over the
        start of that day, no run at all.
        """
        if not self._can_match() or moment.astimezone(UTC).year > _LAST_YEAR:
            return None
        search = _Search(self, moment)
        last_year = min(search.clock.wall.year + _YEARS, _LAST_YEAR)
        while search.clock.wall.year <= last_year:
            if search.finds_in_one_pass():
                return datetime.fromtimestamp(search.clock.instant, UTC)
        return None

    def latest_between(self, start: datetime, end: datetime) -> datetime | None:
        """Return the last time after `start` and not after `end`, `None` for none.

        It takes some thirty searches, for any number of runs in between.
        """
        low, high = int(start.timestamp()), int(end.timestamp()) + 1
        latest = self._next_until(low, end)
        if latest is None:
            return None
        # A run follows `low`, and none follows `high`.
        while high - low > 1:
            middle = (low + high) // 2
            found = self._next_until(middle, end)
            low, high = (low, middle) if found is None else (middle, high)
            latest = found or latest
        # Where clocks change, the next run depends on the start of the search.
        while (following := self._next_until(int(latest.timestamp()), end)) is not None:
            latest = following
        return latest

    def _next_until(self, instant: int, end: datetime) -> datetime | None:
        found = self.next_after(datetime.fromtimestamp(instant, UTC))
        return found if found is not None and found <= end else None

    def matches_day(self, day: datetime) -> bool:
        """Tell whether the fields of days allow a day."""
        of_month = day.day in self.days_of_month
        of_week = day.isoweekday() % 7 in self.days_of_week
        if self.days_of_month.is_star or self.days_of_week.is_star:
            return of_month and of_week
        return of_month or of_week

    def _can_match(self) -> bool:
        """Tell whether all fields that must match have numbers."""
        of_month, of_week = self.days_of_month, self.days_of_week
        if of_month.is_star or of_week.is_star:
            days = of_month.numbers and of_week.numbers
        else:
            days = of_month.numbers or of_week.numbers
        needed = (self.minutes.numbers, self.hours.numbers, days, self.months.numbers)
        return all(needed)


class _Search:
    """A clock that is moved forward until all fields match."""

    def __init__(self, schedule: CronSchedule, moment: datetime) -> None:
        self._schedule = schedule
        self.clock = WallClock(int(moment.timestamp()) + 1, schedule.zone)
        self._is_rounded = False
        """True once the smaller units are at their start."""

    def finds_in_one_pass(self) -> bool:
        """Move forward, from the largest unit to the smallest.

        Return True if all fields match. `False` means that a larger unit has changed,
        and that another pass must begin.
        """
        return (
            self._reaches_month()
            and self._reaches_day()
            and self._reaches_hour()
            and self._reaches_minute()
            and self._reaches_whole_minute()
        )

    def _first_time(self) -> bool:
        """Tell whether no unit has been rounded yet; note that one is rounded now."""
        first, self._is_rounded = not self._is_rounded, True
        return first

    def _reaches_month(self) -> bool:
        clock = self.clock
        while clock.wall.month not in self._schedule.months:
            if self._first_time():
                clock.to_first_of_month()
            clock.add_month()
            if clock.wall.month == _JANUARY:
                return False
        return True

    def _reaches_day(self) -> bool:
        clock = self.clock
        while not self._schedule.matches_day(clock.wall):
            if self._first_time():
                clock.to_start_of_day()
            before = clock.instant
            clock.add_day()
            # A change of the clocks at midnight: go on at the nearer midnight.
            if (hour := clock.wall.hour) > _NOON:
                clock.add_hours(24 - hour)
            elif hour:
                clock.add_hours(-hour)
            if clock.instant <= before:
                # The zone left this day out. Upstream never returns from here.
                clock.add_hours(24)
            if clock.wall.day == 1:
                return False
        return True

    def _reaches_hour(self) -> bool:
        clock = self.clock
        while clock.wall.hour not in self._schedule.hours:
            if self._first_time():
                clock.to_start_of_hour()
            clock.add_hours(1)
            if clock.wall.hour == 0:
                return False
        return True

    def _reaches_minute(self) -> bool:
        clock = self.clock
        while clock.wall.minute not in self._schedule.minutes:
            if self._first_time():
                clock.to_start_of_minute()
            clock.add_seconds(60)
            if clock.wall.minute == 0:
                return False
        return True

    def _reaches_whole_minute(self) -> bool:
        second = self.clock.wall.second
        if second == 0:
            return True
        self._is_rounded = True
        self.clock.add_seconds(60 - second)
        return False
