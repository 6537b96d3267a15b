"""Ranks pods for deletion (ActivePodsWithRanks of controller_utils.go)."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from heapq import nsmallest
from typing import Any, Final

from msgspec import Struct

from controller_manager.api.core.v1 import Pod
from controller_manager.api.pods import is_active, is_ready, ready_condition
from controller_manager.api.scalars import parse_int, parse_time

_PHASES: Final[Mapping[str, int]] = {"Pending": 0, "Unknown": 1, "Running": 2}
_NEVER: Final = datetime.min.replace(tzinfo=UTC)


def choose_pods_to_delete(
    pods: Sequence[Pod],
    related: Sequence[Pod],
    count: int,
    now: datetime,
    *,
    use_deletion_costs: bool = True,
) -> list[Pod]:
    """Choose the `count` pods of a replica set that rank first for deletion.

    `related` are the pods of all replica sets of the same owner; a pod that shares its
    node with many of them is deleted before others. Without `use_deletion_costs` every
    pod has the same cost (the feature gate PodDeletionCost).
    """
    if count >= len(pods):
        return list(pods)
    on_node = Counter(pod.spec.node_name for pod in related if is_active(pod))
    cost = deletion_cost if use_deletion_costs else lambda _: 0
    ranks = [_rank(pod, on_node, cost, now) for pod in pods]
    order = _Order()
    for learn in (order.learn_readiness, order.learn_creation):
        for rank in ranks:
            learn(rank)
    best = nsmallest(count, ranks, key=order.key)
    return [rank.pod for rank in best]


class _Rank(Struct, frozen=True):
    """All properties of a pod that the ranking compares."""

    pod: Pod
    static: tuple[int, ...]
    ready: "_Since | None"
    """The time since which the pod is ready, `None` if it is not ready."""

    restarts: tuple[int, int]
    created: "_Since"

    @property
    def uid(self) -> str:
        """The uid of the pod."""
        return self.pod.metadata.uid


class _Since(Struct, frozen=True):
    """A time, and the power of two of the nanoseconds since then."""

    time: datetime
    magnitude: int


_Key = tuple[Any, ...]


class _Order:
    """Makes keys by which pods are sorted for deletion, with the criteria in order.

    Ages are compared on a log scale; within one power of two the uid decides. So the
    choice among pods of similar age is random. Otherwise repeated scaling would always
    delete pods of the youngest failure domain (KEP-2185). Pods of exactly the same time
    are compared by the next criteria. Such pods are neighbours in the order, at the
    place of the lowest of their uids. (Upstream's comparison is not transitive there.)
    """

    def __init__(self) -> None:
        """Begin without pods; the readiness of all must be learned before creations."""
        self._ready: dict[_Key, str] = {}
        self._created: dict[_Key, str] = {}

    def learn_readiness(self, rank: _Rank) -> None:
        """Record the uid of a pod among those that are ready since the same time."""
        if rank.ready is not None:
            _keep_lowest(self._ready, (rank.static, rank.ready), rank.uid)

    def learn_creation(self, rank: _Rank) -> None:
        """Record the uid of a pod among those that were created at the same time."""
        _keep_lowest(
            self._created, (*self._before_creation(rank), rank.created), rank.uid
        )

    def key(self, rank: _Rank) -> _Key:
        """Return the key of a pod; the lowest is deleted first."""
        before = self._before_creation(rank)
        uid = self._created[(*before, rank.created)]
        return (*before, *_age(rank.created, uid))

    def _before_creation(self, rank: _Rank) -> _Key:
        # A pod that is ready and one that is not differ in `static` already.
        ready: _Key = ()
        if rank.ready is not None:
            uid = self._ready[(rank.static, rank.ready)]
            ready = _age(rank.ready, uid)
        restarts, sidecar_restarts = rank.restarts
        return (rank.static, ready, -restarts, -sidecar_restarts)


def _keep_lowest(uids: dict[_Key, str], key: _Key, uid: str) -> None:
    if uid < uids.setdefault(key, uid):
        uids[key] = uid


def _age(since: _Since, uid: str) -> tuple[int, str]:
    """Return a key by which younger pods and pods without a time come first."""
    return (-2, "") if since.time == _NEVER else (since.magnitude, uid)


def _rank(
    pod: Pod, on_node: Mapping[str, int], cost: Callable[[Pod], int], now: datetime
) -> _Rank:
    """Rank pods that are unassigned, not running, unready, cheap or crowded first."""
    ready = is_ready(pod)
    static = (
        bool(pod.spec.node_name),
        _PHASES.get(pod.status.phase, 0),
        ready,
        cost(pod),
        -on_node[pod.spec.node_name],
    )
    return _Rank(
        pod=pod,
        static=static,
        ready=_since(_ready_since(pod), now) if ready else None,
        restarts=most_restarts(pod),
        created=_since(_created(pod), now),
    )


def _since(time: datetime, now: datetime) -> _Since:
    return _Since(time, _magnitude(now, time))


def deletion_cost(pod: Pod) -> int:
    """Return the pod-deletion-cost annotation; 0 if absent or malformed."""
    annotations = pod.metadata.annotations
    text = annotations.deletion_cost if annotations is not None else None
    # Upstream accepts "-01", but neither "+1" nor "01"; a refused text counts as 0.
    if text is None or text.startswith(("+", "0")):
        return 0
    return parse_int(text, 32) or 0


def _ready_since(pod: Pod) -> datetime:
    condition = ready_condition(pod)
    if condition is None or not condition.last_transition_time:
        return _NEVER
    return parse_time(condition.last_transition_time)


def _created(pod: Pod) -> datetime:
    timestamp = pod.metadata.creation_timestamp
    return parse_time(timestamp) if timestamp else _NEVER


def _magnitude(now: datetime, since: datetime) -> int:
    # Upstream takes the logarithm of nanoseconds: 1 s is 29, 2 s is 30.
    nanoseconds = (now - since).total_seconds() * 1e9
    return int(math.log2(nanoseconds)) if nanoseconds > 0 else -1


def most_restarts(pod: Pod) -> tuple[int, int]:
    """Return the restarts of the container, and of the sidecar, with the most."""
    regular = (each.restart_count for each in pod.status.container_statuses or ())
    init_containers = pod.spec.init_containers or ()
    sidecars = {x.name for x in init_containers if x.restart_policy == "Always"}
    of_sidecars = (
        each.restart_count
        for each in pod.status.init_container_statuses or ()
        if each.name in sidecars
    )
    return max(regular, default=0), max(of_sidecars, default=0)


def age_ratios(
    pods: Iterable[Pod], chosen: Iterable[Pod], now: datetime
) -> list[float]:
    """Return the age of each ready chosen pod relative to the youngest ready one."""
    # A value near 1 means that young pods were deleted, a high value that old ones
    # were.
    youngest = max((_created(pod) for pod in pods if is_ready(pod)), default=_NEVER)
    youngest_age = (now - youngest).total_seconds()
    if youngest_age <= 0:
        return []
    return [
        float((now - _created(pod)).total_seconds() // youngest_age)
        for pod in chosen
        if is_ready(pod)
    ]
