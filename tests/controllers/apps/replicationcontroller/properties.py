"""What the controller of replication controllers promises."""

from tests.simulation.changes import only
from tests.simulation.properties import May, Properties


class ReplicationControllerProperties(Properties):
    """It writes what the replica set controller writes."""

    controller = "replicationcontroller-controller"
    may_write = (
        May(("create", "delete"), "pods"),
        May(("patch",), "pods", only(("metadata", "ownerReferences"))),
        May(("update",), "replicationcontrollers/status", only(("status",))),
    )


PROPERTIES = ReplicationControllerProperties
