"""Computes whether and when a pod on a tainted node is evicted (processPodOnNode)."""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from controller_manager.api.core.scheduling import NO_EXECUTE, Taint, Toleration
from controller_manager.api.core.v1 import Node
from controller_manager.api.meta import true_condition
from controller_manager.control.scheduling import tolerates

Taints = tuple[Taint, ...]

_HEALTH: Final = frozenset(
    ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
)


class Eviction(Struct, frozen=True):
    """An eviction of the pod `uid` that is planned, announced or done.

    `since` and `due` are monotonic times in seconds: the begin and the end of the time
    for which the pod tolerates `taints`. An event announces the eviction.
    """

    uid: str
    since: float
    due: float
    taints: Taints
    is_announced: bool = False
    is_done: bool = False

    @property
    def is_silent(self) -> bool:
        """True if the eviction was due at once and no event was recorded."""
        return self.due <= self.since and not self.is_announced


def no_execute(taints: Iterable[Taint] | None) -> Taints:
    """Return the taints that evict pods (getNoExecuteTaints)."""
    return tuple(each for each in taints or () if each.effect == NO_EXECUTE)


def used_tolerations(
    taints: Taints, tolerations: Sequence[Toleration] | None, *, compares_numbers: bool
) -> list[Toleration] | None:
    """Return the first toleration of each taint, or `None` (GetMatchingTolerations)."""
    used = []
    for taint in taints:
        for each in tolerations or ():
            if tolerates(each, taint, compares_numbers=compares_numbers):
                used.append(each)
                break
        else:
            return None
    return used


def tolerated_seconds(used: Iterable[Toleration]) -> int | None:
    """Return the shortest time of tolerations (getMinTolerationTime), or `None`."""
    limits = [each.toleration_seconds for each in used]
    return min((max(0, each) for each in limits if each is not None), default=None)


def plan(
    planned: Eviction | None,
    uid: str,
    taints: Taints,
    used: Sequence[Toleration] | None,
    now: float,
) -> Eviction | None:
    """Return the eviction of the pod `uid`, `None` if the pod may stay.

    `used` are the tolerations that count, `None` if the pod does not tolerate all the
    taints. A planned eviction keeps its time when the tolerations change, as upstream.
    """
    if used is None:
        if planned is None or planned.due > now:
            return Eviction(uid, now, now, taints)
        return planned
    seconds = tolerated_seconds(used)
    if seconds is None:
        return None
    if planned is None or (planned.is_silent and seconds > 0):
        planned = Eviction(uid, now, now + seconds, taints)
    return _postponed(planned, taints, seconds)


def _postponed(planned: Eviction, taints: Taints, seconds: int) -> Eviction:
    """Return the eviction with a later time, if one of its taints is gone.

    Only the remaining taints may evict the pod, and it may tolerate them longer.
    """
    if planned.is_announced or _identities(planned.taints) <= _identities(taints):
        return planned
    due = max(planned.due, planned.since + seconds)
    return replace(planned, due=due, taints=taints)


def is_back(node: Node) -> bool:
    """Tell whether a ready node still has the taints of an unhealthy one."""
    keys = {each.key for each in no_execute(node.spec.taints)}
    is_ready = true_condition(node.status.conditions, "Ready") is not None
    return keys <= _HEALTH and is_ready


def _identities(taints: Taints) -> set[tuple[str, str]]:
    return {(each.key, each.value) for each in taints}
