"""How long replacements of failed pods wait (backoff_utils.go).

The first failure delays the next pod by 10 s, each further one by twice as much as
the one before, at most 10 minutes. The time counts from the end of the containers.
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Final

from msgspec import Struct

from controller_manager.api.core.v1 import Pod
from controller_manager.controllers.batch.job.finish_time import finished_at
from controller_manager.controllers.batch.job.index_failures import all_failures_of

FIRST_DELAY: Final = 10.0
"""Seconds that the replacement of the first failed pod waits."""

LONGEST_DELAY: Final = 600.0
"""The most seconds that a replacement waits."""

_ENOUGH_DOUBLINGS: Final = 6
"""10 s doubled six times are 640 s, more than the longest delay."""


class BackOff(Struct, frozen=True):
    """The failures of a job since its last success."""

    failures: int = 0
    last_failure: datetime | None = None
    """When the containers of the last failed pod ended."""

    def after(self, succeeded: Collection[Pod], failed: Collection[Pod]) -> "BackOff":
        """Return the back-off after pods have ended that it has not counted yet.

        A success ends the back-off; only failures after it count then.
        """
        ends = [finished_at(pod) for pod in failed]
        if succeeded:
            success = max(finished_at(pod) for pod in succeeded)
            ends = [end for end in ends if end > success]
            return BackOff(len(ends), max(ends, default=None))
        if not ends:
            return self
        return BackOff(self.failures + len(ends), max(ends))

    def remaining(self, now: datetime) -> float:
        """Return the seconds until the next pod may be created, 0 for at once."""
        return _remaining(self.failures, self.last_failure, now)


def delay_after(failures: int) -> float:
    """Return the seconds to wait after this many failures: 0, 10, 20, 40 … 600."""
    if failures <= 0:
        return 0.0
    return min(FIRST_DELAY * (1 << min(failures - 1, _ENOUGH_DOUBLINGS)), LONGEST_DELAY)


def _remaining(failures: int, since: datetime | None, now: datetime) -> float:
    if since is None:
        return 0.0
    return max(0.0, delay_after(failures) - (now - since).total_seconds())


def remaining_for_index(replaced: Pod | None, now: datetime) -> float:
    """Return the seconds until the replacement of an index's last pod may be created.

    Ignored failures count here. An index without a failed pod need not wait.
    """
    if replaced is None:
        return 0.0
    return _remaining(all_failures_of(replaced) + 1, finished_at(replaced), now)


def may_start(
    indexes: Iterable[int], replaced: Mapping[int, Pod], now: datetime
) -> tuple[list[int], float]:
    """Return those of the indexes that may get a pod now.

    If none may, also return the seconds until the first of them may, else 0.
    `replaced` has the last failed pod of each index that has one.
    """
    waits = {index: remaining_for_index(replaced.get(index), now) for index in indexes}
    ready = [index for index, wait in waits.items() if wait <= 0]
    return ready, 0.0 if ready else min(waits.values(), default=0.0)
