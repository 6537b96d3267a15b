"""The time as the API server has it.

What it stamps on objects (creationTimestamp) can be compared with its own time
only: the clocks of two machines may differ by minutes.
"""

from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime

from controller_manager.clock import Clock


class ServerClock:
    """A clock that goes by the header Date of the answers, to the second.

    Before the first answer, and where no answer says the time, it is our own.
    """

    def __init__(self, clock: Clock) -> None:
        """Take our own clock, by which the time since an answer is counted."""
        self._clock = clock
        self._date = ""
        self._heard_at = 0.0

    def heard(self, date: str) -> None:
        """Note what an answer says; it is read when somebody asks."""
        self._date = date
        self._heard_at = self._clock.monotonic()

    def now(self) -> datetime:
        """Return the server's time, up to a second early."""
        if self._date:
            passed = timedelta(seconds=self.monotonic() - self._heard_at)
            try:
                return parsedate_to_datetime(self._date) + passed
            except ValueError:
                self._date = ""  # a proxy's nonsense
        return self._clock.now()

    def monotonic(self) -> float:
        """Return our own monotonic time."""
        return self._clock.monotonic()
