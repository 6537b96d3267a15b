"""Validation of priority levels (pkg/apis/flowcontrol/validation)."""

import math
from collections.abc import Iterator
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    forbidden_field,
    invalid,
    not_supported,
    required,
    shown,
)

EXEMPT: Final = "Exempt"
_TYPES: Final = (EXEMPT, "Limited")
_RESPONSES: Final = ("Queue", "Reject")
_MOST_QUEUES: Final = 10_000_000
_HASH_BITS: Final = 60
_ONLY_EXEMPT: Final = "type must be 'Exempt' if and only if name is 'exempt'"
_SHARES: Final = "nominalConcurrencyShares"
_LENDABLE: Final = "lendablePercent"


def validate_level_spec(name: str, spec: JSON) -> Iterator[Cause]:
    """Yield the errors in the spec of the priority level `name`."""
    kind = spec.get("type", "")
    if (name == "exempt") != (kind == EXEMPT):
        yield invalid("spec.type", shown(kind), _ONLY_EXEMPT)
    if kind not in _TYPES:
        yield not_supported("spec.type", shown(kind), _TYPES)
        return
    own, other = ("exempt", "limited") if kind == EXEMPT else ("limited", "exempt")
    if spec.get(other) is not None:
        wrong = "not Limited" if other == "limited" else "Limited"
        why = f"must be nil if the type is {wrong}"
        yield forbidden_field(f"spec.{other}", why)
    if (limits := spec.get(own)) is None:
        if own == "limited":
            yield required("spec.limited", "must not be empty when type is Limited")
        return
    yield from _validate_shares(limits, f"spec.{own}")
    if own == "limited":
        response = limits.get("limitResponse") or {}
        yield from _validate_response(response, "spec.limited.limitResponse")
        yield from _validate_borrowing(limits)


def _validate_shares(limits: JSON, field: str) -> Iterator[Cause]:
    if (shares := limits[_SHARES]) < 0:
        why = "must be a non-negative integer"
        yield invalid(f"{field}.{_SHARES}", shown(shares), why)
    if not 0 <= (percent := limits[_LENDABLE]) <= 100:
        why = "must be between 0 and 100, inclusive"
        yield invalid(f"{field}.{_LENDABLE}", shown(percent), why)


def _validate_borrowing(limits: JSON) -> Iterator[Cause]:
    if (percent := limits.get("borrowingLimitPercent", 0)) < 0:
        field = "spec.limited.borrowingLimitPercent"
        yield invalid(
            field, shown(percent), "if specified, must be a non-negative integer"
        )


def _validate_response(response: JSON, field: str) -> Iterator[Cause]:
    kind, queuing, where = (
        response.get("type", ""),
        response.get("queuing"),
        f"{field}.queuing",
    )
    if kind not in _RESPONSES:
        yield not_supported(f"{field}.type", shown(kind), _RESPONSES)
    elif kind == "Reject" and queuing is not None:
        why = "must be nil if limited.limitResponse.type is not Limited"
        yield forbidden_field(where, why)
    elif kind == "Queue" and queuing is None:
        why = "must not be empty if limited.limitResponse.type is Limited"
        yield required(where, why)
    elif kind == "Queue":
        yield from _validate_queuing(queuing or {}, where)


def _validate_queuing(queuing: JSON, field: str) -> Iterator[Cause]:
    length, queues, hand = (
        queuing[name] for name in ("queueLengthLimit", "queues", "handSize")
    )
    if length <= 0:
        yield invalid(f"{field}.queueLengthLimit", shown(length), "must be positive")
    if queues <= 0:
        yield invalid(f"{field}.queues", shown(queues), "must be positive")
    elif queues > _MOST_QUEUES:
        why = f"must not be greater than {_MOST_QUEUES}"
        yield invalid(f"{field}.queues", shown(queues), why)
    if problem := _problem_of_hand(hand, queues):
        yield invalid(f"{field}.handSize", shown(hand), problem)


def _problem_of_hand(hand: int, queues: int) -> str:
    """Return why a hand cannot be dealt from the queues, "" if it can."""
    if hand <= 0:
        return "must be positive"
    if hand > queues:
        return f"should not be greater than queues ({queues})"
    bits = 0.0
    for left in range(queues, queues - hand, -1):
        bits += math.log2(left)
        if math.ceil(bits) > _HASH_BITS:  # A hand has at most 60 cards.
            return (
                f"required entropy bits of deckSize {queues} and handSize {hand} "
                f"should not be greater than {_HASH_BITS}"
            )
    return ""
