"""Amounts by resource name (apiserver pkg/quota/v1/resources.go)."""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from controller_manager.api.quantity import ZERO, Quantity, parse_quantity

Amounts = Mapping[str, Quantity]
"""Quantities by the name of their resource; no function changes them."""

NOTHING: Final[Amounts] = {}


def amounts(texts: Mapping[str, str] | None) -> dict[str, Quantity]:
    """Return the parsed amounts of an object's texts.

    Raises QuantityError for an invalid quantity.
    """
    return {name: parse_quantity(text) for name, text in (texts or {}).items()}


def printed(values: Amounts) -> dict[str, str]:
    """Return amounts in canonical form, sorted by name."""
    return {name: str(values[name]) for name in sorted(values)}


def added(first: Amounts, second: Amounts) -> dict[str, Quantity]:
    """Return the sum of each resource."""
    total = dict(first)
    for name, amount in second.items():
        known = total.get(name)
        total[name] = amount if known is None else known + amount
    return total


def larger(values: Iterable[Amounts]) -> dict[str, Quantity]:
    """Return the largest amount of each resource."""
    largest: dict[str, Quantity] = {}
    for each in values:
        for name, amount in each.items():
            known = largest.get(name)
            if known is None or amount > known:
                largest[name] = amount
    return largest


def growth(new: Amounts, old: Amounts) -> dict[str, Quantity]:
    """Return the growth of each resource of `new`; it is zero for one that shrinks."""
    differences = {name: new[name] - old.get(name, ZERO) for name in new}
    return {
        name: each if each > ZERO else Quantity(0, each.format)
        for name, each in differences.items()
    }


def masked(values: Amounts, names: Collection[str]) -> dict[str, Quantity]:
    """Return the amounts of these resources only."""
    return {name: each for name, each in values.items() if name in names}


def exceeded(wanted: Amounts, limits: Amounts) -> list[str]:
    """Return the sorted names of the resources that are above their limit."""
    both = wanted.keys() & limits.keys()
    return sorted(name for name in both if wanted[name] > limits[name])
