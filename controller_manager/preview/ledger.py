"""The newest creations and deletions on the server that no write has matched.

The manager in charge may be faster: its pod is there before the preview has created
one. A creation of the preview then finds the match here.
"""

from collections import OrderedDict
from collections.abc import Callable

from msgspec import Struct

from controller_manager.clock import Clock

from .contents import controller_uid
from .fields import JSON
from .target import Collection, Target


class Owner(Struct, frozen=True):
    """The objects of one resource that one controller owns, by its uid."""

    collection: Collection
    namespace: str
    uid: str


def owner_of(target: Target, obj: JSON) -> Owner:
    """Return the objects of the same resource and owner as an object."""
    return Owner(target.collection, target.namespace, controller_uid(obj))


class _Made(Struct):
    at: float
    target: Target
    obj: JSON


class Ledger:
    """Creations and deletions on the server, for the grace time, a limited number."""

    def __init__(self, clock: Clock, *, grace: float, most: int) -> None:
        """Start empty; `grace` is in seconds, `most` the number that is kept."""
        self._clock = clock
        self._grace = grace
        self._most = most
        self._known: OrderedDict[str, None] = OrderedDict()
        self._made: OrderedDict[str, _Made] = OrderedDict()
        self._ended: OrderedDict[str, tuple[float, Owner]] = OrderedDict()

    def is_first(self, event: str) -> bool:
        """Tell whether an event is seen for the first time; several watches show it."""
        if event in self._known:
            return False
        self._known[event] = None
        if len(self._known) > 4 * self._most:
            self._known.popitem(last=False)
        return True

    def add_made(self, uid: str, target: Target, obj: JSON) -> None:
        """Record an object that was created on the server."""
        self._made[uid] = _Made(self._clock.monotonic(), target, obj)
        if len(self._made) > self._most:
            self._made.popitem(last=False)

    def take_made(
        self, is_match: Callable[[Target, JSON], bool]
    ) -> tuple[Target, JSON] | None:
        """Return a recorded object that matches, and forget it; None for none."""
        oldest = self._clock.monotonic() - self._grace
        for uid, made in list(self._made.items()):
            if made.at < oldest:
                del self._made[uid]
            elif is_match(made.target, made.obj):
                del self._made[uid]
                return made.target, made.obj
        return None

    def add_ended(self, uid: str, owner: Owner) -> None:
        """Record that the server has deleted an object of an owner."""
        self._ended[uid] = self._clock.monotonic(), owner
        if len(self._ended) > self._most:
            self._ended.popitem(last=False)

    def take_ended(self, owner: Owner) -> bool:
        """Tell whether the server has deleted an object of an owner; forget one."""
        oldest = self._clock.monotonic() - self._grace
        for uid, (at, deleted_of) in list(self._ended.items()):
            if at < oldest:
                del self._ended[uid]
            elif deleted_of == owner:
                del self._ended[uid]
                return True
        return False
