"""The checks behind /healthz, /livez and /readyz.

/healthz and /livez say whether a restart of this process would help. So they do not
depend on the API server: otherwise every kubelet would restart its manager during an
outage, the leader as well as the standby. /readyz says what the process waits for.
"""

from collections.abc import Sequence

from .runnable import Checks, Runnable
from .startup import StartUp


class Health:
    """The checks of all parts of a manager, in the order of the parts."""

    def __init__(
        self,
        startup: StartUp,
        elections: Sequence[Runnable],
        parts: Sequence[Runnable],
    ) -> None:
        self._startup = startup
        self._elections = elections
        self._parts = (*elections, *parts)

    def healthz(self) -> Checks:
        """Return the checks of /healthz and /livez; call this in the main loop."""
        return _checks(self._parts)

    def beside(self) -> Checks:
        """Return the checks of /healthz that need no answer of the main loop."""
        return _checks(self._elections)

    def readyz(self) -> Checks:
        """Return the checks of /readyz: the API server, then those of the parts."""
        checks = {"apiserver": self._startup.problem}
        for part in self._parts:
            checks |= part.ready()
        return checks


def _checks(parts: Sequence[Runnable]) -> Checks:
    return {name: check for part in parts for name, check in part.health().items()}
