"""The clock of the API server.

Timestamps that the server sets (creationTimestamp) must be compared with the clock of
the server: the clocks of two machines may differ by minutes.
"""

from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Final

from controller_manager.clock import Clock

_MONTHS: Final = (
    "Jan",
    "Feb",
    "Mar",
    "Apr",
    "May",
    "Jun",
    "Jul",
    "Aug",
    "Sep",
    "Oct",
    "Nov",
    "Dec",
)
_WORDS: Final = 6
"""The words of a Date header, with the name of the day and the time zone."""


class ServerClock:
    """A clock that follows the Date header of the server's answers, to the second.

    Before the first answer with such a header, it is the local clock.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._date = ""
        self._observed_at = 0.0

    def observe(self, date: str) -> None:
        """Remember the Date header of an answer; `now` parses it."""
        self._date = date
        self._observed_at = self._clock.monotonic()

    def now(self) -> datetime:
        """Return the server's time; it may be up to a second behind."""
        if self._date:
            passed = timedelta(seconds=self.monotonic() - self._observed_at)
            try:
                return parse_date(self._date) + passed
            except ValueError:
                self._date = ""  # a proxy has set an invalid date
        return self._clock.now()

    def monotonic(self) -> float:
        """Return the local monotonic time."""
        return self._clock.monotonic()


def parse_date(date: str) -> datetime:
    """Return the time of a Date header; raises ValueError.

    Go's servers write ``Sat, 28 Nov 2026 12:37:05 GMT``; other forms are rare.
    """
    words = date.split(" ")
    if len(words) == _WORDS and words[2] in _MONTHS and words[-1] == "GMT":
        _, day, month, year, time, _ = words
        hour, minute, second = map(int, time.split(":"))
        number = _MONTHS.index(month) + 1
        return datetime(int(year), number, int(day), hour, minute, second, tzinfo=UTC)
    return parsedate_to_datetime(date)
