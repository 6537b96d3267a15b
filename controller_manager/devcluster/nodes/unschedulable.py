"""Why a pod cannot be scheduled, in the scheduler's words (framework.FitError)."""

from collections.abc import Iterator, Mapping
from typing import Final

from controller_manager.devcluster.nodes.devices import TOO_FEW
from controller_manager.devcluster.nodes.volumes.binding import ONE_POD

_NO_NODES: Final = "no nodes available to schedule pods"
_RESOLVABLE: Final = frozenset((ONE_POD, TOO_FEW))
"""Reasons that would be gone if other pods were; here none has to make room."""

_NO_VICTIMS: Final = "No preemption victims found for incoming pod"
_NOT_HELPFUL: Final = "Preemption is not helpful for scheduling"


def unschedulable(total: int, blocker: str, counts: Mapping[str, int]) -> str:
    """Return the message about a pod that none of `total` nodes fits.

    Either `blocker` keeps it from all nodes, or `counts` says from how many nodes each
    reason keeps it.
    """
    if not total:
        return _NO_NODES
    reasons = blocker or ", ".join(_counted(counts))
    preemption = ", ".join(_counted(_preemption(total, counts)))
    return (
        f"0/{total} nodes are available: {reasons}. no new claims to deallocate, "
        f"preemption: 0/{total} nodes are available: {preemption}."
    )


def _preemption(total: int, counts: Mapping[str, int]) -> Mapping[str, int]:
    resolvable = sum(counts.get(reason, 0) for reason in _RESOLVABLE)
    found = {_NO_VICTIMS: resolvable, _NOT_HELPFUL: total - resolvable}
    return {text: count for text, count in found.items() if count}


def _counted(counts: Mapping[str, int]) -> Iterator[str]:
    yield from sorted(f"{count} {reason}" for reason, count in counts.items())
