"""replicationcontroller-controller: keeps the pods of replication controllers."""

from controller_manager.api.core.v1 import PODS, REPLICATION_CONTROLLERS
from controller_manager.control.gates import LOGARITHMIC_SCALE_DOWN, POD_DELETION_COST
from controller_manager.control.replicas import METRICS, READS
from controller_manager.options.controller_options import ControllerOptions, concurrency
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.permissions import RECORD_EVENTS, allow


class ReplicationControllerOptions(ControllerOptions):
    """The number of replication controllers that are synced at the same time."""

    concurrent_syncs: int = concurrency(
        "concurrent-rc-syncs",
        5,
        "ReplicationController.ConcurrentRCSyncs",
        "replication controllers",
    )


CONTROLLER = Descriptor(
    name="replicationcontroller-controller",
    aliases=("replicationcontroller",),
    load=".controller:ReplicationControllerReconciler",
    requires=(REPLICATION_CONTROLLERS, PODS),
    makes=((PODS, "ReplicationController"),),
    reads=READS,
    options=ReplicationControllerOptions,
    gates=(LOGARITHMIC_SCALE_DOWN, POD_DELETION_COST),
    permissions=(
        allow(REPLICATION_CONTROLLERS, "get", "list", "update", "watch"),
        allow(REPLICATION_CONTROLLERS, "update", subresource="status"),
        allow(REPLICATION_CONTROLLERS, "update", subresource="finalizers"),
        allow(PODS, "create", "delete", "list", "patch", "watch"),
        *RECORD_EVENTS,
    ),
    metrics=METRICS,
    component="replication-controller",
    service_account="replication-controller",
)
