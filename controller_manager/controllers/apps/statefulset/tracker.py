"""The times since which pods fail to start.

A status does not have the time since which a container waits. So this process records
when it first saw the failure, and hands it to the decision in the view. After a
restart, or in another leader, the time begins with the first sync: pods are replaced
later, never earlier.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct

from controller_manager.api.core.v1 import Pod
from controller_manager.api.pods import is_ready
from controller_manager.clock import Clock

from .pods import container_statuses, start_failures

_LONGEST_RUN: Final = 600.0
"""Seconds after which a container that runs again is no longer crash-looping.

After this time a kubelet begins with short delays again, too.
"""


class _Failure(Struct, frozen=True):
    """A start failure that was seen without interruption.

    `first` and `last` are readings of the monotonic clock in seconds. `restarts` is the
    number of restarts of the container at `last`.
    """

    first: float
    last: float
    restarts: int


_FailuresOfPod = dict[str, _Failure]
"""The failures of one pod, by the keys of `start_failures`."""


class StartFailureTracker:
    """The start failures of the pods of each set, as long as they continue.

    A failure continues while each sync sees it. A container that crashes again and
    again runs between the crashes. Its failure continues only if the container was
    restarted since then, is never seen ready, and waits again within ten minutes after
    it was last seen waiting. In all other cases the failure begins anew.
    """

    def __init__(self, clock: Clock) -> None:
        """Take the clock; begin without failures."""
        self._clock = clock
        self._pods: dict[str, dict[str, _FailuresOfPod]] = {}

    def observe(self, key: str, pods: Sequence[Pod]) -> Mapping[str, datetime]:
        """Record the failures of all pods of a set; drop those of other pods.

        Returns the instants since which pods fail to start, by the uids of the pods.
        """
        now, time = self._clock.monotonic(), self._clock.now()
        known = self._pods.get(key, {})
        kept: dict[str, _FailuresOfPod] = {}
        since: dict[str, datetime] = {}
        for pod in pods:
            uid, present = pod.metadata.uid, start_failures(pod)
            before = known.get(uid, {})
            found = _paused(before, pod, present, now) | {
                name: _seen(before.get(name), restarts, now)
                for name, restarts in present.items()
            }
            if found:
                kept[uid] = found
            if present:
                longest = now - min(found[name].first for name in present)
                since[uid] = time - timedelta(seconds=longest)
        self._pods.pop(key, None)
        if kept:
            self._pods[key] = kept
        return since

    def forget(self, key: str) -> None:
        """Drop the failures of the pods of a set that is gone."""
        self._pods.pop(key, None)


def _seen(before: _Failure | None, restarts: int, now: float) -> _Failure:
    """Return a failure that is seen now."""
    goes_on = before is not None and (
        restarts == before.restarts
        or (restarts > before.restarts and now - before.last <= _LONGEST_RUN)
    )
    first = before.first if before is not None and goes_on else now
    return _Failure(first, now, restarts)


def _paused(
    before: _FailuresOfPod, pod: Pod, present: Mapping[str, int], now: float
) -> _FailuresOfPod:
    """Return the failures of containers that run, but may wait again soon."""
    if not before or is_ready(pod):
        return {}
    return {
        each.name: known
        for each in container_statuses(pod)
        if each.name not in present
        and (known := before.get(each.name)) is not None
        and not each.ready
        and each.restart_count > known.restarts
        and now - known.last <= _LONGEST_RUN
    }
