"""The estimated costs of operators (checker/cost.go of cel-go)."""

from collections.abc import Sequence

from controller_manager.control.cel.types import BOOL, DYN, MapOf, result_of

from .call_estimates import PER_CHARACTER, is_text
from .sizes import ONE, Estimate, Size, is_single


def any_of(parts: Sequence[Estimate]) -> Size:
    """Return the size of any of these values."""
    if not parts:
        return Size(0, 0)
    sizes = [each.size for each in parts]
    return Size(min(each.least for each in sizes), max(each.most for each in sizes))


def combined(operator: str, parts: Sequence[Estimate]) -> Estimate:
    """Return the estimate of an operator with the costs of its operands."""
    cost, types = sum(each.cost for each in parts), [each.type for each in parts]
    match operator, parts:
        case "&&" | "||", _:
            return Estimate(cost, BOOL, (), ONE)
        case "?:", [condition, yes, no]:
            most = condition.cost + max(yes.cost, no.cost)
            size = yes.size.or_other(no.size)
            item = yes.item.or_other(no.item) if yes.item and no.item else None
            type_ = no.type if yes.type == DYN else yes.type
            return Estimate(most, type_, (), size, item)
        case "==" | "!=", _:
            return Estimate(cost + _compared(parts), BOOL, (), ONE)
        case "<" | "<=" | ">" | ">=", _:
            more = 1 if any(map(is_single, types)) else _compared(parts)
            return Estimate(cost + more, BOOL, (), ONE)
        case "in", [_, within]:
            more = 1 if isinstance(within.type, MapOf) else within.size.most
            return Estimate(cost + more, BOOL, (), ONE)
        case "+", [one, other] if not any(map(is_single, types)):
            return _added(cost, one, other)
    found = result_of(operator, types)
    return Estimate(cost + 1, found, (), ONE)


def _compared(parts: Sequence[Estimate]) -> int:
    size = min(each.size.most for each in parts)
    return Size(0, size).cost(PER_CHARACTER)


def _added(cost: int, one: Estimate, other: Estimate) -> Estimate:
    size = one.size.plus(other.size)
    item = one.item.or_other(other.item) if one.item and other.item else None
    type_ = other.type if one.type == DYN else one.type
    more = size.cost(PER_CHARACTER) if is_text(type_) else 1
    return Estimate(cost + more, type_, (), size, item)
