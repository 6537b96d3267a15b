"""A set of the most recent items, which bounds the memory (upstream: uid_cache.go)."""

from collections.abc import Hashable
from typing import Generic, TypeVar

ItemT = TypeVar("ItemT", bound=Hashable)


class RecentSet(Generic[ItemT]):
    """A set that drops its oldest item above a number of items."""

    def __init__(self, most: int = 500) -> None:
        """Upstream's caches of uids have 500 items, too."""
        self._most = most
        self._items: dict[ItemT, None] = {}

    def __len__(self) -> int:
        """Return the number of items."""
        return len(self._items)

    def __contains__(self, item: ItemT) -> bool:
        """Tell whether an item is in the set."""
        return item in self._items

    def clear(self) -> None:
        """Drop all items."""
        self._items.clear()

    def add(self, item: ItemT) -> None:
        """Add an item, or make it the newest one."""
        self._items.pop(item, None)
        self._items[item] = None
        if len(self._items) > self._most:
            del self._items[next(iter(self._items))]
