"""The failures of pods that the controller remembers between syncs.

- Start failures: a status does not have the time since which a container waits. So
  this process records when it first saw the failure. After a restart, or in another
  leader, the time begins with the first sync: pods are replaced later, never earlier.
- Pods that failed as soon as they existed. Upstream replaces them as fast as it can:
  one pod that a node rejects is created some 600 times in a minute, for ever.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct, field

from controller_manager.api.apps.v1 import StatefulSet
from controller_manager.api.core.v1 import ContainerStatus, Pod, PodCondition
from controller_manager.api.meta import is_deleting, key_of
from controller_manager.api.pods import is_ready, ready_condition
from controller_manager.clock import Clock
from controller_manager.control import creation_delays

from .identity import ordinals, parent_and_ordinal

NO_NODE: Final = ""
"""The name of the failure of a pod that fits no node; others name containers."""


_REASONS: Final = frozenset(
    (
        "CrashLoopBackOff",
        "CreateContainerConfigError",
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
    )
)
"""Reasons of waiting containers that do not start by themselves, from kubelets."""


def start_failures(pod: Pod) -> Mapping[str, int]:
    """Return waiting containers, or `NO_NODE`, with their restarts so far."""
    # After a power cut all pods of a set start, and a database may replay its log for
    # half an hour. Only the status of a pod distinguishes such a pod from one that
    # never starts: a container that its kubelet cannot start, or no node that the pod
    # fits on.
    if _unschedulable(pod) is not None:
        return {NO_NODE: 0}
    condition = ready_condition(pod)
    if condition is None or condition.status == "True":
        return {}
    return {
        each.name: each.restart_count
        for each in container_statuses(pod)
        if each.state.waiting is not None and each.state.waiting.reason in _REASONS
    }


def container_statuses(pod: Pod) -> Iterator[ContainerStatus]:
    """Yield the statuses of containers and init containers."""
    yield from pod.status.container_statuses or ()
    yield from pod.status.init_container_statuses or ()


def unready_condition(pod: Pod) -> PodCondition | None:
    """Return the condition with the time since which a pod is not ready."""
    return _unschedulable(pod) or ready_condition(pod)


def _unschedulable(pod: Pod) -> PodCondition | None:
    """Return the condition of the scheduler that the pod fits on no node."""
    for each in pod.status.conditions or ():
        if each.type == "PodScheduled" and each.status == "False":
            return each if each.reason == "Unschedulable" else None
    return None


_LONGEST_RUN: Final = 600.0
"""Seconds after which a container that runs again is no longer crash-looping.

After this time a kubelet begins with short delays again, too.
"""


class _StartFailure(Struct, frozen=True):
    """A start failure that was seen without interruption.

    `first` and `last` are readings of the monotonic clock in seconds. `restarts` is the
    number of restarts of the container at `last`.
    """

    first: float
    last: float
    restarts: int


_FailuresOfPod = dict[str, _StartFailure]
"""The failures of one pod, by the keys of `start_failures`."""


class StartFailures:
    """The start failures of the pods of each set, as long as they continue.

    A failure continues while each sync sees it. A container that crashes again and
    again runs between the crashes. Its failure continues only if the container was
    restarted since then, is never seen ready, and waits again within ten minutes after
    it was last seen waiting. In all other cases the failure begins anew.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pods: dict[str, dict[str, _FailuresOfPod]] = {}

    def observe(self, key: str, pods: Sequence[Pod]) -> Mapping[str, datetime]:
        """Return the times since which pods fail to start, by uid; drop other pods."""
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


def _seen(before: _StartFailure | None, restarts: int, now: float) -> _StartFailure:
    goes_on = before is not None and (
        restarts == before.restarts
        or (restarts > before.restarts and now - before.last <= _LONGEST_RUN)
    )
    first = before.first if before is not None and goes_on else now
    return _StartFailure(first, now, restarts)


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
    generation: int = 0
    by_name: dict[str, _Failure] = field(default_factory=dict)


class FailedPods:
    """Delays the replacement of pods that failed at once, by set and name.

    The first pod that fails is replaced without a delay, the next ones after 1 s, 2 s,
    4 s and so on up to 15 minutes. A pod that becomes ready, or that is ten seconds old
    before it fails, ends that for its name. A change of the set makes all pods due.
    """

    def __init__(self, clock: Clock, server_clock: Clock) -> None:
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
        """Note that a pod is gone or is being deleted: it may have failed before."""
        # A failed pod that another client has deleted is replaced after the same delay:
        # that may be a program that deletes all failed pods. Somebody who deletes an
        # older one asks for another attempt now.
        now = self._server_clock.now()
        if creation_delays.failed_at_once(pod, now):
            self._note(key, pod)
        last = self._last(key, pod)
        if last is None or last.uid != pod.metadata.uid or last.is_gone:
            return
        last.is_gone = True
        if creation_delays.age(pod, now) >= creation_delays.AT_ONCE:
            last.due = 0.0

    def forget(self, key: str) -> None:
        """Drop the failures of a set that is gone."""
        self._failures.pop(key, None)

    def _see(self, key: str, pod: Pod, now: datetime) -> None:
        if creation_delays.failed_at_once(pod, now):
            self._note(key, pod)
            return
        last = self._last(key, pod)
        if last is None or last.uid == pod.metadata.uid:
            return
        if is_ready(pod) or creation_delays.age(pod, now) >= creation_delays.AT_ONCE:
            del self._failures[key].by_name[pod.metadata.name]

    def _last(self, key: str, pod: Pod) -> _Failure | None:
        failures = self._failures.get(key)
        return None if failures is None else failures.by_name.get(pod.metadata.name)

    def _note(self, key: str, pod: Pod) -> None:
        last, uid = self._last(key, pod), pod.metadata.uid
        if last is not None and last.uid == uid:
            return
        delay = 0.0 if last is None else creation_delays.delay_after(last.delay)
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
            elif each.due - now > creation_delays.ROUNDING:
                held[name] = each.due - now
        if failures.by_name:
            self._failures[key_of(stateful_set)] = failures
        return held
