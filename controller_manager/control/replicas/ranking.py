"""Ranks pods: which to delete first (ActivePodsWithRanks, controller_utils.go)."""

import functools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from controller_manager.api.core.v1 import Pod
from controller_manager.api.numbers import parse_int
from controller_manager.api.pods import is_active, is_ready, ready_condition
from controller_manager.api.times import parse_time

_PHASES: Final[Mapping[str, int]] = {"Pending": 0, "Unknown": 1, "Running": 2}
_NEVER: Final = datetime.min.replace(tzinfo=UTC)


def choose_pods_to_delete(
    pods: Sequence[Pod],
    related: Iterable[Pod],
    count: int,
    now: datetime,
    *,
    use_deletion_costs: bool = True,
) -> list[Pod]:
    """Return the `count` pods of a replica set that rank first for deletion.

    `related` are the pods of all replica sets of the same owner; a pod that
    shares its node with many of them is deleted before a pod that shares it with
    few. Without `use_deletion_costs` every pod has the same cost (the feature gate
    PodDeletionCost).
    """
    if count >= len(pods):
        return list(pods)
    on_node = Counter(pod.spec.node_name for pod in related if is_active(pod))
    cost = deletion_cost if use_deletion_costs else _no_cost

    def compare(one: Pod, other: Pod) -> int:
        ranks = _static_rank(one, on_node, cost), _static_rank(other, on_node, cost)
        return _compare(one, other, ranks, now)

    return sorted(pods, key=functools.cmp_to_key(compare))[:count]


def _compare(
    one: Pod,
    other: Pod,
    static: tuple[tuple[int, ...], tuple[int, ...]],
    now: datetime,
) -> int:
    """Return a number below 0 if `one` is deleted first; criteria by importance."""
    if static[0] != static[1]:
        return -1 if static[0] < static[1] else 1
    if is_ready(one) and is_ready(other):
        since = _ready_since(one), _ready_since(other)
        if since[0] != since[1]:
            return _younger_first(one, other, *since, now)
    restarts = most_restarts(one), most_restarts(other)
    if restarts[0] != restarts[1]:
        return -1 if restarts[0] > restarts[1] else 1
    created = _created(one), _created(other)
    if created[0] != created[1]:
        return _younger_first(one, other, *created, now)
    return 0


def _static_rank(
    pod: Pod, on_node: Mapping[str, int], cost: Callable[[Pod], int]
) -> tuple[int, ...]:
    """Rank pods that are unassigned, not running, unready, cheap or crowded first."""
    return (
        bool(pod.spec.node_name),
        _PHASES.get(pod.status.phase, 0),
        is_ready(pod),
        cost(pod),
        -on_node[pod.spec.node_name],
    )


def deletion_cost(pod: Pod) -> int:
    """Return the pod-deletion-cost annotation; 0 if absent or malformed."""
    annotations = pod.metadata.annotations
    text = annotations.deletion_cost if annotations is not None else None
    # Upstream accepts "-01", but neither "+1" nor "01"; a refused text counts as 0.
    if text is None or text.startswith(("+", "0")):
        return 0
    return parse_int(text, 32) or 0


def _no_cost(_: Pod) -> int:
    return 0


def _ready_since(pod: Pod) -> datetime:
    condition = ready_condition(pod)
    if condition is None or not condition.last_transition_time:
        return _NEVER
    return parse_time(condition.last_transition_time)


def _created(pod: Pod) -> datetime:
    timestamp = pod.metadata.creation_timestamp
    return parse_time(timestamp) if timestamp else _NEVER


def _younger_first(
    one: Pod, other: Pod, since: datetime, other_since: datetime, now: datetime
) -> int:
    """Compare ages on a log scale; within one power of two the uid decides.

    So the choice among pods of similar age is random: otherwise repeated scaling
    would always delete pods of the youngest failure domain (KEP-2185).
    """
    if _NEVER in (since, other_since):
        return -1 if since == _NEVER else 1
    ages = _magnitude(now, since), _magnitude(now, other_since)
    if ages[0] == ages[1]:
        return -1 if one.metadata.uid < other.metadata.uid else 1
    return -1 if ages[0] < ages[1] else 1


def _magnitude(now: datetime, since: datetime) -> int:
    # Upstream takes the logarithm of nanoseconds: 1 s is 29, 2 s is 30.
    nanoseconds = (now - since).total_seconds() * 1e9
    return int(math.log2(nanoseconds)) if nanoseconds > 0 else -1


def most_restarts(pod: Pod) -> tuple[int, int]:
    """Return the restarts of the container, and of the sidecar, with the most."""
    regular = max(
        (status.restart_count for status in pod.status.container_statuses or ()),
        default=0,
    )
    sidecars = {
        container.name
        for container in pod.spec.init_containers or ()
        if container.restart_policy == "Always"
    }
    sidecar = max(
        (
            status.restart_count
            for status in pod.status.init_container_statuses or ()
            if status.name in sidecars
        ),
        default=0,
    )
    return regular, sidecar


def age_ratios(
    pods: Iterable[Pod], chosen: Iterable[Pod], now: datetime
) -> list[float]:
    """Return the age of each ready chosen pod relative to the youngest ready one.

    The metric replicaset_controller_sorting_deletion_age_ratio observes them: near 1
    young pods were deleted, far above 1 old pods were deleted.
    """
    youngest = max((_created(pod) for pod in pods if is_ready(pod)), default=_NEVER)
    youngest_age = (now - youngest).total_seconds()
    if youngest_age <= 0:
        return []
    return [
        float((now - _created(pod)).total_seconds() // youngest_age)
        for pod in chosen
        if is_ready(pod)
    ]
