"""The requests that clients have sent to a cluster, for a test to assert on."""

from collections.abc import Iterator, Sequence
from typing import Any, Final, Unpack

from .cluster_thread import ClusterThread
from .request_filter import Which, make_filter
from .request_log import RecordedRequest, RequestLog

WRITES: Final = ("create", "delete", "deletecollection", "patch", "update")
"""The verbs of requests that change objects."""


class Requests:
    """The requests of clients on the network, in the order of their answers.

    A cluster keeps the last 10,000. A watch is recorded when it begins. The nodes and
    controllers of the cluster do not use the network: their requests are not there.
    Methods may be called in any thread.
    """

    def __init__(self, thread: ClusterThread[Any], log: RequestLog) -> None:
        """Take the log of a cluster, and the cluster's thread."""
        self._thread = thread
        self._log = log

    def __iter__(self) -> Iterator[RecordedRequest]:
        """Iterate over the requests so far."""
        return iter(self._all())

    def __len__(self) -> int:
        """Return the number of requests so far."""
        return len(self._all())

    def of(self, user: str = "", **which: Unpack[Which]) -> list[RecordedRequest]:
        """Return the requests of a user, or of all, that the keywords select.

        The keywords are those of the faults. Raises ClusterError for an unknown verb.
        """
        wanted = make_filter(which)
        return [
            each
            for each in self._all()
            if user in ("", each.user)
            and wanted.picks(each.attributes if each.resource else None)
            and wanted.user_agent in each.user_agent
        ]

    def writes(self, user: str = "", **which: Unpack[Which]) -> list[RecordedRequest]:
        """Return the requests that change objects, as `of` selects them."""
        which.setdefault("verbs", WRITES)
        return self.of(user, **which)

    def clear(self) -> None:
        """Forget the requests so far."""
        self._thread.call(self._log.requests.clear)

    def _all(self) -> Sequence[RecordedRequest]:
        return self._thread.call(lambda: [*self._log.requests])
