"""Whole numbers, computed and rounded as upstream computes and rounds them.

Counts of replicas are 32-bit numbers in the API, amounts are 64-bit numbers of
thousandths ("milli"). Where Go's arithmetic overflows without notice, these functions
give the nearest number that fits.
"""

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from controller_manager.api.quantity import parse_quantity

MAX_INT32: Final = 2**31 - 1
MIN_INT32: Final = -(2**31)
MAX_INT64: Final = 2**63 - 1
MIN_INT64: Final = -(2**63)


@lru_cache(maxsize=4096)
def milli_value(quantity: str) -> int:
    """Return a quantity in thousandths; the pods of a workload have equal ones."""
    return parse_quantity(quantity).milli_value


def as_int32(number: int) -> int:
    """Return the 32-bit number nearest to `number`."""
    return min(max(number, MIN_INT32), MAX_INT32)


def as_int64(number: int) -> int:
    """Return the 64-bit number nearest to `number`."""
    return min(max(number, MIN_INT64), MAX_INT64)


def rounded_up(number: float) -> int:
    """Return `number` rounded up to a 32-bit number; what is no number counts as 0."""
    if math.isnan(number):
        return 0
    if math.isinf(number):
        return MAX_INT32 if number > 0 else MIN_INT32
    return as_int32(math.ceil(number))


def divided(dividend: int, divisor: int) -> int:
    """Return the quotient without its fraction, rounded towards 0 as in Go.

    The divisor is positive.
    """
    quotient = abs(dividend) // divisor
    return quotient if dividend >= 0 else -quotient


def ratio(amount: float, target: float) -> float:
    """Return `amount` / `target`; a target of 0 gives infinity, or no number."""
    if target:
        return amount / target
    return math.copysign(math.inf, amount) if amount else math.nan


def total(amounts: Iterable[int]) -> int:
    """Return the sum of amounts, at most and at least what 64 bits hold."""
    return as_int64(sum(amounts))
