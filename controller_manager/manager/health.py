"""The checks behind /healthz, /livez and /readyz.

/healthz and /livez say whether a restart of this process would help. So they do not
depend on the API server: otherwise every kubelet would restart its manager during an
outage, the leader as well as the standby. /readyz says what the process waits for.
"""

from collections.abc import Sequence

from controller_manager.manager.runnable import Checks, Runnable
from controller_manager.manager.startup import StartUp


class Health:
    """The checks of all parts of a manager, in the order of the parts."""

    def __init__(self, startup: StartUp, parts: Sequence[Runnable]) -> None:
        """Take the start-up, and the parts that run after it."""
        self._startup = startup
        self._parts = parts

    def healthz(self) -> Checks:
        """Return the checks of /healthz and /livez."""
        return {
            name: check for part in self._parts for name, check in part.health().items()
        }

    def readyz(self) -> Checks:
        """Return the checks of /readyz: the API server, then those of the parts."""
        checks = {"apiserver": self._startup.problem}
        for part in self._parts:
            checks |= part.ready()
        return checks
