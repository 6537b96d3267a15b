"""The scheduler's message about a pod that cannot be scheduled (framework.FitError)."""

from collections.abc import Iterator, Mapping
from typing import Final

_NO_NODES: Final = "no nodes available to schedule pods"


def unschedulable(
    total: int, reasons: Mapping[str, int] | str, preemption: Mapping[str, int] | str
) -> str:
    """Return the message about a pod that none of `total` nodes fits.

    `reasons` has the number of nodes for each reason, or the only reason. `preemption`
    has the same for the preemption; it is empty if pods are evicted.
    """
    if not total:
        return _NO_NODES
    message = _explained(total, reasons)
    if not preemption:
        return message
    if not isinstance(preemption, str):
        preemption = _explained(total, preemption)
    return f"{message} no new claims to deallocate, preemption: {preemption}"


def _explained(total: int, reasons: Mapping[str, int] | str) -> str:
    listed = reasons if isinstance(reasons, str) else ", ".join(_counted(reasons))
    return f"0/{total} nodes are available: {listed}."


def _counted(counts: Mapping[str, int]) -> Iterator[str]:
    yield from sorted(f"{count} {reason}" for reason, count in counts.items())
