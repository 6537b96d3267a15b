"""Taints of nodes and tolerations of pods (component-helpers, scheduling/corev1)."""

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from controller_manager.api.core.scheduling import Taint, Toleration
from controller_manager.api.numbers import parse_int

_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]*")


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
    number, limit = _number(value), _number(bound)
    if number is None or limit is None:
        return False
    return number < limit if operator == "Lt" else number > limit


def _number(text: str) -> int | None:
    return parse_int(text, 64) if _INTEGER.fullmatch(text) else None


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
