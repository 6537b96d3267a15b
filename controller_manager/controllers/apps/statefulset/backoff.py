"""The delay before pods are replaced that failed as soon as they existed.

Upstream replaces them as fast as it can: one pod that a node rejects is created some
600 times in a minute, for ever.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

from msgspec import Struct, field

from controller_manager.api.apps.v1 import StatefulSet
from controller_manager.api.core.v1 import Pod
from controller_manager.api.meta import is_deleting, key_of
from controller_manager.api.pods import is_ready
from controller_manager.clock import Clock
from controller_manager.control.failed_at_once import (
    AT_ONCE,
    ROUNDING,
    age,
    delay_after,
    failed_at_once,
)

from .identity import ordinals, parent_and_ordinal


class _Failure(Struct):
    """The last pod of a name that failed at once.

    It is replaced at `due`, `delay` seconds after the failure was noticed. `is_gone` is
    true if it was deleted.
    """

    uid: str
    delay: float
    due: float
    is_gone: bool = False


class _Failures(Struct):
    """The failures of a set by the names of the pods."""

    generation: int = 0
    by_name: dict[str, _Failure] = field(default_factory=dict)


class FailedPods:
    """Delays the replacement of pods that failed at once, by set and name.

    The first pod that fails is replaced without a delay, the next ones after 1 s, 2 s,
    4 s and so on up to 15 minutes. A pod that becomes ready, or that is ten seconds old
    before it fails, ends that for its name. A change of the set makes all pods due.
    """

    def __init__(self, clock: Clock, server_clock: Clock) -> None:
        """Take the clock, and that of the API server; begin without failures."""
        self._clock = clock
        self._server_clock = server_clock
        self._failures: dict[str, _Failures] = {}

    def __contains__(self, key: str) -> bool:
        """Tell whether pods of a set have failed."""
        return key in self._failures

    def observe(
        self, stateful_set: StatefulSet, pods: Sequence[Pod]
    ) -> Mapping[str, float]:
        """Note the pods of a set that have failed, or that are healthy again.

        Returns the seconds for which pods must not be replaced, by their names.
        """
        key, now = key_of(stateful_set), self._server_clock.now()
        for pod in pods:
            if not is_deleting(pod):
                self._see(key, pod, now)
        return self._held(stateful_set)

    def gone(self, key: str, pod: Pod) -> None:
        """Note that a pod is gone or is being deleted: it may have failed before.

        A failed pod that another client has deleted is replaced after the same delay:
        that may be a program that deletes all failed pods. Somebody who deletes an
        older one asks for another attempt now.
        """
        now = self._server_clock.now()
        if failed_at_once(pod, now):
            self._note(key, pod)
        last = self._last(key, pod)
        if last is None or last.uid != pod.metadata.uid or last.is_gone:
            return
        last.is_gone = True
        if age(pod, now) >= AT_ONCE:
            last.due = 0.0

    def forget(self, key: str) -> None:
        """Drop the failures of a set that is gone."""
        self._failures.pop(key, None)

    def _see(self, key: str, pod: Pod, now: datetime) -> None:
        if failed_at_once(pod, now):
            self._note(key, pod)
            return
        last = self._last(key, pod)
        if last is None or last.uid == pod.metadata.uid:
            return
        if is_ready(pod) or age(pod, now) >= AT_ONCE:
            del self._failures[key].by_name[pod.metadata.name]

    def _last(self, key: str, pod: Pod) -> _Failure | None:
        failures = self._failures.get(key)
        return None if failures is None else failures.by_name.get(pod.metadata.name)

    def _note(self, key: str, pod: Pod) -> None:
        """Note that a pod has failed, unless that is known; begin its delay."""
        last, uid = self._last(key, pod), pod.metadata.uid
        if last is not None and last.uid == uid:
            return
        delay = 0.0 if last is None else delay_after(last.delay)
        by_name = self._failures.setdefault(key, _Failures()).by_name
        due = self._clock.monotonic() + delay
        by_name[pod.metadata.name] = _Failure(uid, delay, due)

    def _held(self, stateful_set: StatefulSet) -> Mapping[str, float]:
        """Return the seconds until pods are due; drop names that are not wanted."""
        failures = self._failures.pop(key_of(stateful_set), None)
        if failures is None:
            return {}
        is_changed = failures.generation != stateful_set.metadata.generation
        failures.generation = stateful_set.metadata.generation
        wanted, now = ordinals(stateful_set), self._clock.monotonic()
        held: dict[str, float] = {}
        for name, each in (*failures.by_name.items(),):
            found = parent_and_ordinal(name)
            if found is None or found[1] not in wanted:
                del failures.by_name[name]
            elif is_changed:
                each.due = 0.0
            elif each.due - now > ROUNDING:
                held[name] = each.due - now
        if failures.by_name:
            self._failures[key_of(stateful_set)] = failures
        return held
