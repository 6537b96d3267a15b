"""Why an owner waits before it creates its next child: failures at once, and mutations.

A kubelet rejects pods for which its node has no room, and the taint-eviction-controller
evicts pods that do not tolerate the taints of their node. Upstream replaces them as
fast as it can: one replica that a node rejects makes 500 pods in a minute, for ever.

An owner recognises a child by the template that it has. A mutating webhook or policy
that changes the template of each new child makes the owner create one after the other,
in upstream without a pause. The answer of a creation is compared with the request.
After a difference the owner asks by a dry run, after a growing delay, whether admission
still changes such an object, and creates the next one only once it does not.
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from controller_manager.api.core.v1 import Pod
from controller_manager.api.meta import CompleteObject, key_of, true_condition
from controller_manager.api.pods import is_active, is_ready
from controller_manager.api.scalars import parse_time
from controller_manager.clock import Clock
from controller_manager.workqueue.ratelimiters import ExponentialBackoff

# Pods that fail as soon as they exist, and the delays before they are replaced.

AT_ONCE: Final = 10.0
"""A pod that fails within these seconds after its creation has failed at once.

A pod that is older, and neither failed nor ready, counts as healthy: it may wait for an
image or for a node.
"""

FIRST_DELAY: Final = 1.0
LONGEST_DELAY: Final = 900.0
"""The seconds before the second and before the last replacements.

The first ones come without a delay.
"""

ROUNDING: Final = 1e-6
"""A shorter remainder is a floating-point error, not a delay."""


def delay_after(last: float) -> float:
    """Return the delay that follows the last one, which was 0 for the first failure."""
    return min(max(2 * last, FIRST_DELAY), LONGEST_DELAY)


def age(pod: Pod, now: datetime) -> float:
    """Return the seconds since the creation of a pod, by the API server's time."""
    created = pod.metadata.creation_timestamp
    return (now - parse_time(created)).total_seconds() if created else 0.0


def has_failed(pod: Pod) -> bool:
    """Tell whether a pod has failed, or is evicted because of a taint."""
    if pod.status.phase == "Failed":
        return True
    disruption = true_condition(pod.status.conditions, "DisruptionTarget")
    return disruption is not None and disruption.reason == "DeletionByTaintManager"


def failed_at_once(pod: Pod, now: datetime) -> bool:
    """Tell whether a failed pod is so young that it has failed at once."""
    return has_failed(pod) and age(pod, now) < AT_ONCE


class Allowance(Struct, frozen=True):
    """The most pods that may be created now, `None` for any number of them.

    The next ones may be created in `seconds`, unless a pod changes before.
    """

    most: int | None = None
    seconds: float | None = None


NO_LIMIT: Final = Allowance()


class _Failures(Struct):
    generation: int
    known: frozenset[str]
    """The pods that existed when the last failure was noticed, by uid."""
    delay: float
    due: float


class FailuresAtOnce:
    """Limits the replacements of pods that failed at once, for each owner.

    The first pods that fail are replaced without a delay. When their replacements fail,
    too, one pod is created after 1 s, then after 2 s, 4 s and so on up to 15 minutes.
    The first of them that is healthy ends that, and the others follow. A change of the
    owner's spec makes the next one due.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures: dict[str, _Failures] = {}
        self._gone: dict[str, dict[str, Pod]] = {}

    def __contains__(self, key: str) -> bool:
        """Tell whether pods of an owner have failed."""
        return key in self._failures or key in self._gone

    def gone(self, key: str, pod: Pod) -> None:
        """Note that a pod is gone or is being deleted: it may have failed before."""
        if has_failed(pod):
            self._gone.setdefault(key, {})[pod.metadata.uid] = pod

    def forget(self, key: str) -> None:
        """Drop the failures of an owner that is gone."""
        self._failures.pop(key, None)
        self._gone.pop(key, None)

    def allowance(
        self, owner: CompleteObject, pods: Sequence[Pod], now: datetime
    ) -> Allowance:
        """Look at all pods of an owner, and return how many may be created.

        `now` is the time of the API server, which wrote the times of the pods. The
        caches must show all pods that were created before.
        """
        gone = self._gone.pop(key_of(owner), {})
        present = frozenset(each.metadata.uid for each in pods)
        lost = (gone[uid] for uid in gone.keys() - present)
        failures = self._noted(owner, (*pods, *lost), present, now)
        if failures is None or not failures.delay:
            return NO_LIMIT
        trials = [each for each in _unknown(pods, failures.known) if is_active(each)]
        if trials:
            left = AT_ONCE - min(age(each, now) for each in trials)
            return Allowance(0, max(left, FIRST_DELAY))
        left = failures.due - self._clock.monotonic()
        return Allowance(0, left) if left > ROUNDING else Allowance(1)

    def _noted(
        self,
        owner: CompleteObject,
        pods: Sequence[Pod],
        present: frozenset[str],
        now: datetime,
    ) -> _Failures | None:
        key, generation = key_of(owner), owner.metadata.generation
        last = self._failures.get(key)
        fresh = pods if last is None else _unknown(pods, last.known)
        if last is not None:
            # Nothing is remembered of pods that are gone: no later sync may come.
            last.known &= present
        if any(failed_at_once(each, now) for each in fresh):
            delay = 0.0 if last is None else delay_after(last.delay)
            due = self._clock.monotonic() + delay
            self._failures[key] = _Failures(generation, present, delay, due)
        elif any(_is_healthy(each, now) for each in fresh):
            self.forget(key)
        elif last is not None and last.generation != generation:
            last.generation, last.due = generation, 0.0
        return self._failures.get(key)


def _unknown(pods: Sequence[Pod], known: Collection[str]) -> list[Pod]:
    return [each for each in pods if each.metadata.uid not in known]


def _is_healthy(pod: Pod, now: datetime) -> bool:
    return is_active(pod) and (is_ready(pod) or age(pod, now) >= AT_ONCE)


# New objects that admission has changed, and the delay before the next attempt.

REVISION_MUTATED: Final = "RevisionMutated"
"""The reason of the event about a changed revision; upstream has none."""

LONGEST_DRY_RUN_DELAY: Final = 300.0
"""Seconds between two attempts; the delay doubles from the first to the longest."""


class Mutation(Struct, frozen=True):
    """A change that admission made to a new object.

    `name` is the object that was created first, `field` the first field that differs.
    The next attempt is due in `seconds`. `sent` stands for the content that was sent.
    `problem` is the error of the last dry run, which could not tell.
    """

    name: str
    field: str
    seconds: float
    sent: str = ""
    problem: str = ""

    @property
    def message(self) -> str:
        """The change, and the end of the wait, for users."""
        problem = f"; the last dry run failed: {self.problem}" if self.problem else ""
        return (
            f'Admission has changed {self.field} of the new object "{self.name}", so '
            "that its owner does not recognise it; the next attempt waits until "
            f"the owner changes or admission leaves the field as it is{problem}"
        )


class _Known(Struct):
    uid: str
    generation: int
    due: float
    mutation: Mutation


class Mutations:
    """The owners whose last new child was changed by admission, by key."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: dict[str, _Known] = {}
        self._backoff = ExponentialBackoff(FIRST_DELAY, LONGEST_DRY_RUN_DELAY)

    def of(self, owner: CompleteObject) -> Mutation | None:
        """Return the mutation of an owner's last new child, `None` for none.

        A change of the owner's spec makes the next attempt due.
        """
        key, metadata = key_of(owner), owner.metadata
        known = self._known.get(key)
        if known is None:
            return None
        if known.uid != metadata.uid:
            self.forget(key)
            return None
        if known.generation != metadata.generation:
            known.generation, known.due = metadata.generation, 0.0
            self._backoff.forget(key)
        left = known.due - self._clock.monotonic()
        return replace(known.mutation, seconds=max(0.0, left))

    def found(
        self, owner: CompleteObject, name: str, field: str, sent: str = ""
    ) -> Mutation:
        """Note that admission has changed a field of a new child; return the delay.

        While the same content is sent, the name of the first such child is kept.
        """
        key, metadata = key_of(owner), owner.metadata
        known = self._known.get(key)
        if known is not None and known.mutation.sent == sent:
            name = known.mutation.name
        mutation = Mutation(name, field, self._backoff.when(key), sent)
        due = self._clock.monotonic() + mutation.seconds
        self._known[key] = _Known(metadata.uid, metadata.generation, due, mutation)
        return mutation

    def not_told(
        self, owner: CompleteObject, known: Mutation, error: Exception
    ) -> Mutation:
        """Note that a dry run failed, so the next one waits; return the delay."""
        again = self.found(owner, known.name, known.field, known.sent)
        again = replace(again, problem=str(error) or repr(error))
        self._known[key_of(owner)].mutation = again
        return again

    def forget(self, key: str) -> None:
        """Forget an owner that is gone, or that has the child that it needs."""
        if self._known.pop(key, None) is not None:
            self._backoff.forget(key)


def first_difference(sent: Any, stored: Any, path: str) -> str:  # noqa: ANN401 - JSON
    """Return the path of the first field in which two values differ, "" for none.

    For example ``spec.containers[0].image``. Lists of different lengths differ as a
    whole.
    """
    if isinstance(sent, dict) and isinstance(stored, dict):
        for key in sorted(sent.keys() | stored.keys()):
            below = f"{path}.{key}" if path else key
            if found := first_difference(sent.get(key), stored.get(key), below):
                return found
        return ""
    if isinstance(sent, list) and isinstance(stored, list):
        if len(sent) != len(stored):
            return path
        for number, pair in enumerate(zip(sent, stored, strict=True)):
            if found := first_difference(*pair, f"{path}[{number}]"):
                return found
        return ""
    return "" if sent == stored else path
