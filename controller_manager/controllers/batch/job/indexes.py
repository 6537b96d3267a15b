"""Completion indexes: sets of them, and the index of a pod (indexed_job_utils.go)."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator

from msgspec import Struct

from controller_manager.api.core.v1 import Pod
from controller_manager.api.numbers import parse_int

Interval = tuple[int, int]
"""The first and the last of consecutive indexes."""


class IndexSet(Struct, frozen=True):
    """An immutable set of completion indexes.

    It has the intervals of a status field like ``completedIndexes``, in order and with
    gaps between them. So a job of 100,000 indexes that ran in order takes one interval.
    """

    intervals: tuple[Interval, ...] = ()

    @classmethod
    def parse(cls, text: str, completions: int) -> "IndexSet":
        """Return the indexes below `completions` of a text like ``1,3-5,7``.

        Parts that are no interval are left out: the API server validates both fields
        that have this format, so only a status written long ago can have one.
        """
        read = (_interval(part, completions) for part in text.split(","))
        return cls(_merged(sorted(each for each in read if each is not None)))

    @classmethod
    def of(cls, indexes: Iterable[int]) -> "IndexSet":
        """Return the set of these indexes, which may be in any order and repeated."""
        return cls(_merged((index, index) for index in sorted(indexes)))

    def format(self) -> str:
        """Return the text of a status field; two neighbours are ``1,2``, not ``1-2``.

        The empty set is an empty text.
        """
        return ",".join(_text(*interval) for interval in self.intervals)

    def union(self, other: "IndexSet") -> "IndexSet":
        """Return the indexes of both sets.

        The time is linear in the number of intervals: sorting merges two sorted runs.
        """
        return IndexSet(_merged(sorted(self.intervals + other.intervals)))

    def overlap(self, other: "IndexSet") -> int:
        """Return how many indexes both sets have, in time linear in the intervals."""
        found = mine = theirs = 0
        while mine < len(self.intervals) and theirs < len(other.intervals):
            first, last = self.intervals[mine]
            other_first, other_last = other.intervals[theirs]
            found += max(0, min(last, other_last) - max(first, other_first) + 1)
            mine += last <= other_last
            theirs += other_last <= last
        return found

    def __len__(self) -> int:
        """Return the number of indexes."""
        return sum(last - first + 1 for first, last in self.intervals)

    def __contains__(self, index: object) -> bool:
        """Tell whether an index is in the set, in logarithmic time."""
        if not isinstance(index, int):
            return False
        place = bisect_left(self.intervals, index, key=_last)
        return place < len(self.intervals) and self.intervals[place][0] <= index

    def __iter__(self) -> Iterator[int]:
        """Iterate over the indexes, in order."""
        for first, last in self.intervals:
            yield from range(first, last + 1)


def first_pending(taken: IndexSet, count: int, completions: int) -> list[int]:
    """Return the lowest indexes below `completions` that are not taken.

    There are at most `count`. `taken` are the indexes that need no new pod: those that
    succeeded or failed, or that have an active pod. The time is linear in the
    intervals and `count`, not in `completions`.
    """
    found: list[int] = []
    candidate = 0
    for first, last in (*taken.intervals, (completions, completions)):
        if len(found) >= count:
            break
        end = min(first, completions, candidate + count - len(found))
        found += range(candidate, end)
        candidate = last + 1
    return found


def completion_index(pod: Pod) -> int | None:
    """Return the completion index of a pod; `None` without a valid one."""
    annotations = pod.metadata.annotations
    text = annotations.completion_index if annotations is not None else None
    index = parse_int(text, 64) if text is not None else None
    return index if index is not None and index >= 0 else None


def indexes_of(pods: Iterable[Pod]) -> IndexSet:
    """Return the completion indexes of pods; pods without a valid one are left out."""
    found = map(completion_index, pods)
    return IndexSet.of(index for index in found if index is not None)


def _interval(text: str, completions: int) -> Interval | None:
    """Return the interval of a text like ``3`` or ``3-5``; `None` if there is none."""
    limits = text.split("-")
    first = parse_int(limits[0], 64)
    last = parse_int(limits[min(1, len(limits) - 1)], 64)
    if first is None or last is None:
        return None
    last = min(last, completions - 1)
    return (first, last) if 0 <= first <= last else None


def _merged(ordered: Iterable[Interval]) -> tuple[Interval, ...]:
    """Return intervals with gaps between them, of intervals ordered by their start."""
    merged: list[Interval] = []
    for first, last in ordered:
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return tuple(merged)


def _text(first: int, last: int) -> str:
    if first == last:
        return str(first)
    return f"{first}{',' if last == first + 1 else '-'}{last}"


def _last(interval: Interval) -> int:
    return interval[1]
