"""The changes of the overlay, in the order in which watches show them."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Iterator
from typing import Final, Protocol

from msgspec import Struct

from .fields import JSON, change_number
from .target import Collection, Key

_ENDS: Final = 10_000
"""The most ends of watches that are remembered."""


class Change(Struct, frozen=True):
    """A new view of one object; `obj` is None if the object is gone.

    `last` is then its last state.
    """

    number: int
    key: Key
    obj: JSON | None
    last: JSON


class Follower(Protocol):
    """A watch that shows the changes of one collection."""

    version: int
    """The server's version up to which the watch has shown everything."""

    has_shown: asyncio.Event
    """Set while the reader of the watch has processed all changes."""

    @property
    def collection(self) -> Collection:
        """The resource that is watched."""

    def selects(self, change: Change) -> bool:
        """Tell whether the watch may show a change."""

    def add(self, change: Change) -> None:
        """Take a change that the watch has to show."""


class ChangeLog:
    """Numbers the changes, passes them to watches, and keeps the newest ones."""

    def __init__(self, most: int) -> None:
        """Start without changes; `most` is the number of changes that are kept."""
        self._kept: deque[Change] = deque(maxlen=most)
        self._number = 0
        self._forgotten = 0
        self._followers: dict[Collection, list[Follower]] = {}
        self._ends: OrderedDict[tuple[Collection, str], int] = OrderedDict()

    @property
    def number(self) -> int:
        """The number of the newest change."""
        return self._number

    def next_number(self) -> int:
        """Return a number for a change that watches learn in another way."""
        self._number += 1
        return self._number

    def publish(self, key: Key, obj: JSON | None, last: JSON) -> int:
        """Have all watches show a new view of an object; return the change's number."""
        change = Change(self.next_number(), key, obj, last)
        if len(self._kept) == self._kept.maxlen:
            self._forgotten = self._kept[0].number
        self._kept.append(change)
        for follower in self._followers.get(key.collection, ()):
            if follower.selects(change):
                follower.add(change)
        return change.number

    def ended(self, collection: Collection, version: str, number: int) -> None:
        """Remember how far a watch has shown the changes when it ended at `version`.

        The version of an object of the server does not say that.
        """
        self._ends[collection, version] = number
        if len(self._ends) > _ENDS:
            self._ends.popitem(last=False)

    def shown_at(self, collection: Collection, version: str) -> int | None:
        """Return the change up to which a version of the view shows all; None: unknown.

        A version without a change is that of an object of the server, or there was no
        change yet.
        """
        known = self._ends.get((collection, version))
        number = change_number(version)
        if known is None and not number and self._number:
            return None
        return number if known is None else known

    def after(self, number: int | None) -> list[Change] | None:
        """Return the changes after `number`; None if they are not all kept."""
        if number is None or number < self._forgotten:
            return None
        return [each for each in self._kept if each.number > number]

    def follow(self, follower: Follower) -> None:
        """Pass each change from now on to a watch that selects it."""
        self._followers.setdefault(follower.collection, []).append(follower)

    def unfollow(self, follower: Follower) -> None:
        """Pass no more changes to a watch; ignore one that does not follow."""
        left = self._followers.get(follower.collection, [])
        if follower in left:
            left.remove(follower)

    def followers(self, collection: Collection) -> list[Follower]:
        """Return the watches of a collection."""
        return self._followers.get(collection, [])

    def all_followers(self) -> Iterator[Follower]:
        """Yield the watches of all collections."""
        for each in self._followers.values():
            yield from each

    def reached(self, collection: Collection) -> int:
        """Return the server's version that all watches of a collection have shown."""
        return min((each.version for each in self.followers(collection)), default=0)
