"""A set of the most recent items, which bounds the memory."""

from collections.abc import Hashable
from typing import Final, Generic, TypeVar

ItemT = TypeVar("ItemT", bound=Hashable)

_MOST: Final = 500
"""The most items; upstream's cache of absent owners has the same size."""


class RecentSet(Generic[ItemT]):
    """A set that drops its oldest item above five hundred items."""

    def __init__(self) -> None:
        """Start empty."""
        self._items: dict[ItemT, None] = {}

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
        if len(self._items) > _MOST:
            del self._items[next(iter(self._items))]
