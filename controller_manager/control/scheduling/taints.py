"""Taints of nodes and tolerations of pods (component-helpers, scheduling/corev1)."""

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from controller_manager.api.core.scheduling import Taint, Toleration

_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]*")
_INT64: Final = range(-(2**63), 2**63)


def tolerates(
    toleration: Toleration, taint: Taint, *, compares_numbers: bool = False
) -> bool:
    """Tell whether one toleration tolerates one taint (ToleratesTaint).

    An empty key or effect of the toleration fits every taint. `compares_numbers`
    enables the operators Lt and Gt (the gate TaintTolerationComparisonOperators).
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "" | "Equal":
            return toleration.value == taint.value
        case "Exists":
            return True
        case "Lt" | "Gt" if compares_numbers:
            return _compares(toleration.operator, taint.value, toleration.value)
    return False


def _compares(operator: str, value: str, bound: str) -> bool:
    """Compare two numbers; what is none of 64 bits fits nothing, as upstream."""
    one, other = _integer(value), _integer(bound)
    if one is None or other is None:
        return False
    return one < other if operator == "Lt" else one > other


def _integer(text: str) -> int | None:
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if number in _INT64 else None


def untolerated(
    taints: Iterable[Taint] | None,
    tolerations: Sequence[Toleration],
    effects: Collection[str],
    *,
    compares_numbers: bool = False,
) -> Taint | None:
    """Return the first taint of these effects that no toleration tolerates.

    `None` if all are tolerated (FindMatchingUntoleratedTaint).
    """
    for taint in taints or ():
        if taint.effect in effects and not any(
            tolerates(each, taint, compares_numbers=compares_numbers)
            for each in tolerations
        ):
            return taint
    return None
