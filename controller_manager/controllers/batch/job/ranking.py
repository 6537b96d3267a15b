"""Ranks active pods: which of them are deleted first (ActivePods, pod_utils.go)."""

import math
from collections.abc import Iterable, Mapping
from typing import Final

from controller_manager.api.core.v1 import Pod
from controller_manager.api.pods import is_ready, ready_condition
from controller_manager.api.times import parse_time
from controller_manager.control.replicas.ranking import most_restarts
from controller_manager.controllers.batch.job.indexes import completion_index

_PHASES: Final[Mapping[str, int]] = {"Pending": 0, "Unknown": 1, "Running": 2}


def in_order_of_removal(pods: Iterable[Pod]) -> list[Pod]:
    """Return the pods, those to delete first at the beginning.

    Pods that are not assigned, pending or not ready come first, then those that have
    been ready for the shortest time, have restarted most, or are youngest.
    """
    return sorted(pods, key=_rank)


def misplaced(pods: Iterable[Pod], count: int) -> tuple[list[Pod], list[Pod]]:
    """Return the pods of an indexed job that must go, and those that may stay.

    Pods without an index or with one that is not below `count` must go, and all but
    one of those with the same index.
    """
    surplus: list[Pod] = []
    by_index: dict[int, list[Pod]] = {}
    for pod in pods:
        index = completion_index(pod)
        if index is None or index >= count:
            surplus.append(pod)
        else:
            by_index.setdefault(index, []).append(pod)
    left = []
    for same in by_index.values():
        *others, kept = in_order_of_removal(same)
        surplus += others
        left.append(kept)
    return surplus, left


def _rank(pod: Pod) -> tuple[object, ...]:
    ready = is_ready(pod)
    restarts, sidecar_restarts = most_restarts(pod)
    condition = ready_condition(pod) if ready else None
    return (
        bool(pod.spec.node_name),
        _PHASES.get(pod.status.phase, 0),
        ready,
        _latest_first(condition.last_transition_time if condition else None),
        -restarts,
        -sidecar_restarts,
        _latest_first(pod.metadata.creation_timestamp),
    )


def _latest_first(time: str | None) -> float:
    return -parse_time(time).timestamp() if time else -math.inf
