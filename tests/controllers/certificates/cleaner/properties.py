"""Properties of the cleaner of requests."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from controller_manager.api.scalars import parse_time
from tests.controllers.certificates.workload import PLURAL, Requesters
from tests.simulation.properties import AllowedWrite, Properties, Write

_ANSWERED: Final = timedelta(hours=1)
_PENDING: Final = timedelta(hours=24)


class CleanerProperties(Properties):
    """It deletes requests that are old and answered, or very old."""

    controller = "certificatesigningrequest-cleaner-controller"
    may_write = (AllowedWrite(("delete",), PLURAL),)
    workload = Requesters

    def after_write(self, write: Write) -> Iterator[str]:
        """Check that the server's time for the request has come."""
        request = write.before
        if write.controller != self.controller or request is None:
            return
        conditions = request["status"].get("conditions", [])
        times = [each["lastUpdateTime"] for each in conditions]
        since, limit = request["metadata"]["creationTimestamp"], _PENDING
        if times:
            since = min(times)
            types = {each["type"] for each in conditions}
            waits = types == {"Approved"} and "certificate" not in request["status"]
            limit = _PENDING if waits else _ANSWERED
        now = self.state.server.objects.clock.now()
        if now < parse_time(since) + limit:
            yield f"{write}: the request is not old enough"


PROPERTIES = CleanerProperties
