"""ttl-after-finished-controller: deletes jobs some time after they have finished."""

from controller_manager.api.batch.v1 import JOBS
from controller_manager.options.controller_options import ControllerOptions, concurrency
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.permissions import RECORD_EVENTS, allow


class TTLAfterFinishedOptions(ControllerOptions):
    """The number of finished objects that are synced at a time."""

    concurrent_syncs: int = concurrency(
        "concurrent-ttl-after-finished-syncs",
        5,
        "TTLAfterFinishedController.ConcurrentTTLSyncs",
        "finished objects",
    )


CONTROLLER = Descriptor(
    name="ttl-after-finished-controller",
    aliases=("ttl-after-finished",),
    load=".controller:TTLAfterFinishedReconciler",
    requires=(JOBS,),
    options=TTLAfterFinishedOptions,
    permissions=(allow(JOBS, "delete", "get", "list", "watch"), *RECORD_EVENTS),
    metrics=("ttl_after_finished_controller_job_deletion_duration_seconds",),
)
