"""The properties of the TTL-after-finished controller."""

from tests.simulation.properties import AllowedWrite, Properties


class TTLAfterFinishedProperties(Properties):
    """The controller only deletes jobs."""

    controller = "ttl-after-finished-controller"
    may_write = (AllowedWrite(("delete",), "jobs"),)


PROPERTIES = TTLAfterFinishedProperties
