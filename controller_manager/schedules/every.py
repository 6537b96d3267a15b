"""``@every``: runs at equal distances (robfig/cron's constantdelay.go)."""

from datetime import UTC, datetime, timedelta

from msgspec import Struct


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
