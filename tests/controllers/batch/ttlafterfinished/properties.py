"""The properties of the TTL-after-finished controller."""

from tests.simulation.properties import AllowedWrite, Properties


class TTLAfterFinishedProperties(Properties):
    """It deletes jobs, nothing else."""

    controller = "ttl-after-finished-controller"
    may_write = (AllowedWrite(("delete",), "jobs"),)


PROPERTIES = TTLAfterFinishedProperties
