"""Completion indexes: sets of them, and the index of a pod (indexed_job_utils.go)."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from functools import cached_property
from operator import itemgetter
from typing import Final

from msgspec import Struct

from controller_manager.api.core.v1 import Pod
from controller_manager.api.scalars import parse_int

Interval = tuple[int, int]
"""The first and the last of consecutive indexes."""

_DIGITS: Final = 18

_first, _last = itemgetter(0), itemgetter(1)

_FEW: Final = 16
"""The ratio of sizes from which a small set is inserted into a large set."""


class IndexSet(Struct, frozen=True, dict=True):
    """An immutable set of completion indexes.

    It has the intervals of a status field like ``completedIndexes``, in order and with
    gaps between them. So a job of 100,000 indexes that ran in order takes one interval.
    Its size and its text are computed once.
    """

    intervals: tuple[Interval, ...] = ()

    @classmethod
    def parse(cls, text: str, completions: int) -> "IndexSet":
        """Return the indexes below `completions` of a text like ``1,3-5,7``."""
        # Invalid parts are left out: the API server validates both fields of this
        # format, so only a status written long ago can have invalid parts.
        read = (_interval(each, completions) for each in text.split(","))
        return cls(_merged(sorted(each for each in read if each is not None)))

    @classmethod
    def of(cls, indexes: Iterable[int]) -> "IndexSet":
        """Return the set of these indexes, which may be in any order and repeated."""
        return cls(_merged((index, index) for index in sorted(indexes)))

    def format(self) -> str:
        """Return the text of a status field; two neighbours are ``1,2``, not ``1-2``.

        The empty set is an empty text.
        """
        return self._formatted

    @cached_property
    def _formatted(self) -> str:
        return ",".join(_text(*interval) for interval in self.intervals)

    @cached_property
    def _size(self) -> int:
        return sum(last - first + 1 for first, last in self.intervals)

    def union(self, other: "IndexSet") -> "IndexSet":
        """Return the indexes of both sets."""
        # The time is linear in the number of intervals: sorting merges two sorted runs.
        # A few intervals are put among many by copying those between them.
        few, many = sorted((self, other), key=lambda each: len(each.intervals))
        if not few.intervals:
            return many
        if len(few.intervals) * _FEW <= len(many.intervals):
            return many._with_few(few.intervals)  # noqa: SLF001 - of the same class
        return IndexSet(_merged(sorted(self.intervals + other.intervals)))

    def _with_few(self, added: Iterable[Interval]) -> "IndexSet":
        """Return the union with a few intervals, and derive its size from this one."""
        merged: list[Interval] = []
        size, rest = self._size, 0
        for first, last in added:
            # The intervals that overlap with the new one, or are next to it.
            start = bisect_left(self.intervals, first - 1, lo=rest, key=_last)
            end = bisect_right(self.intervals, last + 1, lo=start, key=_first)
            merged += self.intervals[rest:start]
            rest = end
            size -= sum(b - a + 1 for a, b in self.intervals[start:end])
            size -= merged[-1][1] - merged[-1][0] + 1 if merged else 0
            before = len(merged) - bool(merged)
            _merge(merged, sorted(((first, last), *self.intervals[start:end])))
            size += sum(b - a + 1 for a, b in merged[before:])
        merged += self.intervals[rest:]
        union = IndexSet(tuple(merged))
        union.__dict__["_size"] = size
        return union

    def overlap(self, other: "IndexSet") -> int:
        """Return the number of common indexes, in time linear in the intervals."""
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
        return self._size

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
    """Return at most `count` of the lowest indexes that are not taken."""
    # The time is linear in the intervals and `count`, not in `completions`.
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
    if text.isascii() and text.isdecimal() and len(text) <= _DIGITS:
        index = int(text)  # the usual case, four times as fast
        return (index, index) if index < completions else None
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
    _merge(merged, ordered)
    return tuple(merged)


def _merge(merged: list[Interval], ordered: Iterable[Interval]) -> None:
    """Add intervals that begin no earlier than the last one of `merged`."""
    for first, last in ordered:
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))


def _text(first: int, last: int) -> str:
    if first == last:
        return str(first)
    return f"{first}{',' if last == first + 1 else '-'}{last}"


_LONG: Final = 1000
"""The length of texts whose sets are kept; shorter texts are parsed again."""

_MOST: Final = 4
"""The texts of one job: two fields, each before and after a write of the status."""


class IndexTexts:
    """Keeps the sets of the last long texts of each job.

    A job with every second of 80,000 indexes completed has a text of 40,000 parts.
    Parsing it takes 50 ms, and each sync needs it.
    """

    def __init__(self) -> None:
        self._known: dict[str, dict[tuple[str, int], IndexSet]] = {}

    def read(self, key: str, text: str, completions: int) -> IndexSet:
        """Return the indexes below `completions` of a text in the status of a job."""
        found = self._known.get(key, {}).get((text, completions))
        if found is None:
            found = IndexSet.parse(text, completions)
        self.note(key, text, completions, found)
        return found

    def note(self, key: str, text: str, completions: int, indexes: IndexSet) -> None:
        """Keep the set of a text, and drop the oldest set beyond four."""
        if len(text) < _LONG:
            return
        known = self._known.setdefault(key, {})
        known.pop((text, completions), None)  # the newest is the last
        known[text, completions] = indexes
        while len(known) > _MOST:
            del known[next(iter(known))]

    def forget(self, key: str) -> None:
        """Forget a job that is gone or finished."""
        self._known.pop(key, None)
