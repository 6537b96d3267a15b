"""The properties of the controller of replication controllers."""

from tests.simulation.changes import only
from tests.simulation.properties import AllowedWrite, Properties


class ReplicationControllerProperties(Properties):
    """It writes what the replica set controller writes."""

    controller = "replicationcontroller-controller"
    may_write = (
        AllowedWrite(("create", "delete"), "pods"),
        AllowedWrite(("patch",), "pods", only(("metadata", "ownerReferences"))),
        AllowedWrite(("update",), "replicationcontrollers/status", only(("status",))),
    )


PROPERTIES = ReplicationControllerProperties
