"""The last few of something, so that memory has a bound."""

from collections.abc import Hashable
from typing import Final, Generic, TypeVar

ItemT = TypeVar("ItemT", bound=Hashable)

_MOST: Final = 500
"""As many as upstream remembers of absent owners (its UID cache)."""


class Recent(Generic[ItemT]):
    """A set that forgets what was added longest ago, above five hundred items."""

    def __init__(self) -> None:
        """Start with nothing."""
        self._items: dict[ItemT, None] = {}

    def __contains__(self, item: ItemT) -> bool:
        """Tell whether an item was added lately."""
        return item in self._items

    def clear(self) -> None:
        """Forget all items."""
        self._items.clear()

    def add(self, item: ItemT) -> None:
        """Add an item, or note that it was added again."""
        self._items.pop(item, None)
        self._items[item] = None
        if len(self._items) > _MOST:
            del self._items[next(iter(self._items))]
