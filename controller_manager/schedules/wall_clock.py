"""A time as the clocks of a zone show it, which can be moved by the calendar."""

from datetime import UTC as _UTC
from datetime import datetime, timedelta, tzinfo
from typing import Final

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
