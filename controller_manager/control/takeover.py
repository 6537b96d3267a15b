"""What a former leader has done, and a standby's cache may not know of yet.

A warm cache lags behind the server, most of the time by milliseconds, and by
minutes when a watch has fallen silent. This process remembers its own writes
(see `consistency`); those of the leader before it must be looked up.
"""

from datetime import datetime, timedelta
from typing import Final

from controller_manager.api.meta import KubeObject, key_of
from controller_manager.api.times import parse_time
from controller_manager.clock import Clock

_SKEW: Final = timedelta(seconds=5)
"""By how much the clocks of several API servers may differ, and the second that
their time is told to."""


class Takeover:
    """Tells which objects must be looked at on the server before acting on them.

    Those are the ones that were there before this process led, each once.
    Upstream needs none of this: its caches are filled after it was elected.
    """

    def __init__(self, server_clock: Clock, *, elected: bool) -> None:
        """Take the API server's time, which is what objects are stamped with.

        Where nobody is `elected` there is no former leader.
        """
        self._clock = server_clock
        self._elected = elected
        self._since: datetime | None = None
        self._looked_at: set[str] = set()

    def leads(self) -> None:
        """Note that this process leads from now on."""
        if self._elected:
            self._since = self._clock.now()

    def is_doubtful(self, obj: KubeObject) -> bool:
        """Tell whether to look at the server before acting on `obj`."""
        if self._since is None or key_of(obj) in self._looked_at:
            return False
        created = obj.metadata.creation_timestamp
        return created is None or parse_time(created) <= self._since + _SKEW

    def looked_at(self, key: str) -> None:
        """Note that this has been done."""
        self._looked_at.add(key)

    def forget(self, key: str) -> None:
        """Drop what is known of an object that is gone."""
        self._looked_at.discard(key)
