"""Sets of indexes as texts such as ``0-2,5`` (batch/validation)."""

from itertools import pairwise
from typing import NamedTuple


class Interval(NamedTuple):
    """The indexes from `first` to `last`, both included."""

    first: int
    last: int


def parse_indexes(text: str, completions: int) -> list[Interval]:
    """Return the intervals of a text, in its order.

    `completions` is the number of indexes that the job has. Raises ValueError, whose
    text is upstream's, for a text that is malformed or names other indexes.
    """
    if not text:
        return []
    intervals = [_interval(part, completions) for part in text.split(",")]
    for before, after in pairwise(intervals):
        if before.last >= after.first:
            raise ValueError(_not_increasing(before.last, after.first))
    return intervals


def total(intervals: list[Interval]) -> int:
    """Return the number of indexes in the intervals."""
    return sum(each.last - each.first + 1 for each in intervals)


def first_common_index(one: list[Interval], other: list[Interval]) -> int | None:
    """Return the lowest index that is in both lists; `None` if there is none."""
    rest, others = list(reversed(one)), list(reversed(other))
    while rest and others:
        left, right = rest[-1], others[-1]
        if left.first <= right.last and right.first <= left.last:
            return max(left.first, right.first)
        (rest if left.first <= right.first else others).pop()
    return None


def _interval(text: str, completions: int) -> Interval:
    parts = text.split("-")
    if len(parts) > 2:
        why = (
            f'the fragment "{text}" violates the requirement that an index interval '
            "can have at most two parts separated by '-'"
        )
        raise ValueError(why)
    first = _index(parts[0], completions)
    if len(parts) == 1:
        return Interval(first, first)
    last = _index(parts[1], completions)
    if first >= last:
        raise ValueError(_not_increasing(first, last))
    return Interval(first, last)


def _index(text: str, completions: int) -> int:
    digits = text.removeprefix("+")
    if not (digits.isascii() and digits.isdecimal()):
        why = f'cannot convert string to integer for index: "{text}"'
        raise ValueError(why)
    index = int(digits)
    if index >= completions:
        why = f'too large index: "{text}"'
        raise ValueError(why)
    return index


def _not_increasing(previous: int, current: int) -> str:
    return f"non-increasing order, previous: {previous}, current: {current}"
