"""Protection against writes of a former leader that the cache does not show yet.

The cache of a standby lags behind the API server, usually by milliseconds, and by
minutes when a watch has stopped to send events. This process records its own writes
(see `consistency`); to see those of the former leader it must read from the API
server.
"""

from datetime import datetime, timedelta
from typing import Final

from controller_manager.api.meta import KubeObject, key_of
from controller_manager.api.times import parse_time
from controller_manager.clock import Clock

_SKEW: Final = timedelta(seconds=5)
"""The largest difference between the clocks of several API servers. It includes one
second, because timestamps are in whole seconds."""


class Takeover:
    """Tells which objects must be read from the API server before writing for them.

    Those are the objects that were created before this process led, each once.
    Upstream does not need this: its caches start after it was elected.
    """

    def __init__(self, server_clock: Clock, *, elected: bool) -> None:
        """Take a clock with the API server's time, which sets creation timestamps.

        Without an election (`elected`) there is no former leader.
        """
        self._clock = server_clock
        self._elected = elected
        self._since: datetime | None = None
        self._rechecked: set[str] = set()

    def start_leading(self) -> None:
        """Note that this process leads from now on."""
        if self._elected:
            self._since = self._clock.now()

    def must_recheck(self, obj: KubeObject) -> bool:
        """Tell whether to read from the API server before writing for `obj`."""
        if self._since is None or key_of(obj) in self._rechecked:
            return False
        created = obj.metadata.creation_timestamp
        return created is None or parse_time(created) <= self._since + _SKEW

    def rechecked(self, key: str) -> None:
        """Note that the object of `key` was read from the API server."""
        self._rechecked.add(key)

    def forget(self, key: str) -> None:
        """Drop the key of an object that is gone."""
        self._rechecked.discard(key)
