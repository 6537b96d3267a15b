"""The runs of a schedule that are due by now (mostRecentScheduleTime)."""

from datetime import datetime
from typing import Final

from msgspec import Struct

from .parsing import Schedule

MANY: Final = 100
"""More missed runs than this cause a warning: probably a clock is wrong."""


class Runs(Struct, frozen=True):
    """The runs after one time and not after another.

    `latest` is the last of them, `None` for none. `are_many` is true if there are more
    than `MANY`.
    """

    latest: datetime | None
    are_many: bool = False


def runs_between(schedule: Schedule, start: datetime, end: datetime) -> Runs:
    """Return the runs after `start` and not after `end`.

    It takes about a hundred searches at most, for any time in between. Upstream counts
    with the distance of the first two runs, and so finds no latest run of an uneven
    schedule such as ``0,10 0 * * *``.
    """
    latest = None
    for _ in range(MANY):
        following = schedule.next_after(latest or start)
        if following is None or following > end:
            return Runs(latest)
        latest = following
    last = schedule.latest_between(latest or start, end)
    return Runs(last or latest, are_many=last is not None)


def next_run(schedule: Schedule, start: datetime, now: datetime) -> datetime | None:
    """Return the first run after `now`, of those that follow `start`; `None` for none.

    ``@every`` counts from `start`, so the result does not depend on `now` alone
    (nextScheduleTimeDuration).
    """
    return schedule.next_after(schedule.latest_between(start, now) or start)


def all_runs(
    schedule: Schedule, start: datetime, end: datetime
) -> tuple[datetime, ...]:
    """Return all runs after `start` and not after `end`, the oldest first."""
    runs: list[datetime] = []
    following = schedule.next_after(start)
    while following is not None and following <= end:
        runs.append(following)
        following = schedule.next_after(following)
    return tuple(runs)
