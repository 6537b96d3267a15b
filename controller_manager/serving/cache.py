"""A cache whose entries expire."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

from controller_manager.clock import Clock

KeyT = TypeVar("KeyT", bound=Hashable)
ValueT = TypeVar("ValueT")

_SIZE: Final = 4096


class ExpiringCache(Generic[KeyT, ValueT]):
    """A cache of up to 4,096 values, each with its own time to live."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._entries: OrderedDict[KeyT, tuple[float, ValueT]] = OrderedDict()

    def get(self, key: KeyT) -> ValueT | None:
        """Return the value of a key, `None` if there is none or it has expired."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        expires_at, value = entry
        if self._clock.monotonic() >= expires_at:
            del self._entries[key]
            return None
        return value

    def put(self, key: KeyT, value: ValueT, seconds: float) -> None:
        """Cache a value for `seconds`; with 0 or less, do not cache it."""
        if seconds <= 0:
            return
        self._entries[key] = (self._clock.monotonic() + seconds, value)
        self._entries.move_to_end(key)
        if len(self._entries) > _SIZE:
            self._entries.popitem(last=False)
