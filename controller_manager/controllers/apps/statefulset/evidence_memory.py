"""Since when there has been evidence that pods are broken.

The memory is that of this process. After a restart, or in another leader, evidence
counts from its first sync on: pods are replaced later, never earlier.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct

from controller_manager.api.core.v1 import Pod
from controller_manager.api.pods import is_ready
from controller_manager.clock import Clock
from controller_manager.controllers.apps.statefulset.evidence import (
    container_statuses,
    evidence_of,
)
from controller_manager.runtime.spread import Spread, parts

_LONGEST_RUN: Final = 600.0
"""Seconds after which a container that runs again is no longer crash-looping.

A kubelet begins with short delays again then, too.
"""


class _Sighting(Struct, frozen=True):
    """Evidence that was seen without interruption.

    `first` and `last` are readings of the monotonic clock in seconds. `restarts` is the
    container's number of restarts at the last one.
    """

    first: float
    last: float
    restarts: int


_OfPod = dict[str, _Sighting]
"""The evidence for one pod, by the names that `evidence_of` gives."""


class EvidenceMemory:
    """The evidence for the pods of each set, as long as it is not interrupted.

    Evidence of a container goes on while it is seen in each sync. A container that
    crashes again and again runs in between. Its evidence goes on only if it has been
    restarted since, is never seen ready, and waits again within ten minutes after it
    was last seen waiting. In all other cases the evidence begins anew.
    """

    def __init__(self, clock: Clock) -> None:
        """Take the clock; remember nothing yet."""
        self._clock = clock
        self._pods: dict[str, dict[str, _OfPod]] = {}

    def observe(self, key: str, pods: Sequence[Pod]) -> Spread[Mapping[str, datetime]]:
        """Note the evidence for all pods of a set; drop that for other pods.

        Returns, by the uids of the pods with evidence now, since when it has been seen.
        """
        now, time = self._clock.monotonic(), self._clock.now()
        known = self._pods.get(key, {})
        kept: dict[str, _OfPod] = {}
        since: dict[str, datetime] = {}
        for part in parts(pods):
            for pod in part:
                uid, present = pod.metadata.uid, evidence_of(pod)
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
            yield
        self._pods.pop(key, None)
        if kept:
            self._pods[key] = kept
        return since

    def forget(self, key: str) -> None:
        """Drop the evidence for the pods of a set that is gone."""
        self._pods.pop(key, None)


def _seen(before: _Sighting | None, restarts: int, now: float) -> _Sighting:
    """Return the evidence that is seen now."""
    goes_on = before is not None and (
        restarts == before.restarts
        or (restarts > before.restarts and now - before.last <= _LONGEST_RUN)
    )
    first = before.first if before is not None and goes_on else now
    return _Sighting(first, now, restarts)


def _paused(before: _OfPod, pod: Pod, present: Mapping[str, int], now: float) -> _OfPod:
    """Return the evidence of containers that run, but may wait again soon."""
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
