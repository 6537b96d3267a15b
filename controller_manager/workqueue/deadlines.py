"""Keys that wait for a deadline."""

import heapq
import itertools
from collections.abc import Iterator
from typing import Final

_FEW: Final = 64
"""The number of entries of dropped deadlines that may always stay."""

_MOVED: Final = 4
"""The number of entries of an old heap that each change of a deadline looks at."""

_Entry = tuple[float, int, str]
"""A deadline, a number that keeps the order of equal deadlines, and a key."""


class Deadlines:
    """Keys with the deadline at which each is due; the earliest deadline wins.

    An entry of a heap counts only while its key has its deadline. When most entries do
    not count any more, the heap becomes the old one, and each later call moves a few of
    its entries that count: no call takes long, and a deadline that was dropped does not
    stay in memory until then, which may be a year.
    """

    def __init__(self) -> None:
        """Start without any key."""
        self._deadlines: dict[str, float] = {}
        self._heap: list[_Entry] = []
        self._old: list[_Entry] = []
        self._sequence = itertools.count()

    def __len__(self) -> int:
        """Return how many keys have a deadline."""
        return len(self._deadlines)

    def entries(self) -> int:
        """Return how many entries are kept, whether they count or not."""
        return len(self._heap) + len(self._old)

    def put(self, key: str, deadline: float) -> bool:
        """Set a deadline; tell whether it is earlier than the one that the key had."""
        known = self._deadlines.get(key)
        if known is not None and known <= deadline:
            return False
        self._deadlines[key] = deadline
        heapq.heappush(self._heap, (deadline, next(self._sequence), key))
        self._move()
        return True

    def when(self, key: str) -> float | None:
        """Return the deadline of a key, `None` if it has none."""
        return self._deadlines.get(key)

    def discard(self, key: str) -> None:
        """Drop the deadline of a key, if it has one."""
        self._deadlines.pop(key, None)
        self._move()

    def _move(self) -> None:
        """Move a few entries that count from the old heap, and drop the others."""
        if not self._old and len(self._heap) > 2 * len(self._deadlines) + _FEW:
            self._old, self._heap = self._heap, self._old
        for _ in range(min(_MOVED, len(self._old))):
            entry = self._old.pop()  # a heap without its last entry is a heap
            if self._counts(entry):
                heapq.heappush(self._heap, entry)

    def clear(self) -> None:
        """Drop all deadlines."""
        self._deadlines.clear()
        self._heap.clear()
        self._old.clear()

    def first(self) -> float | None:
        """Return the earliest deadline, `None` for none."""
        heap = self._first_heap()
        return heap[0][0] if heap else None

    def _first_heap(self) -> list[_Entry]:
        """Return the heap that begins with the earliest entry; it may be empty."""
        for heap in (self._heap, self._old):
            while heap and not self._counts(heap[0]):
                heapq.heappop(heap)
        if self._old and (not self._heap or self._old[0] < self._heap[0]):
            return self._old
        return self._heap

    def pop_until(self, now: float) -> Iterator[str]:
        """Yield the keys that are due, each once."""
        while (heap := self._first_heap()) and heap[0][0] <= now:
            _, _, key = heapq.heappop(heap)
            del self._deadlines[key]
            yield key

    def _counts(self, entry: _Entry) -> bool:
        return self._deadlines.get(entry[2]) == entry[0]
