"""ttl-after-finished-controller: deletes jobs some time after they have finished."""

from controller_manager.api.batch.v1 import JOBS
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.permissions import RECORD_EVENTS, allow

from .options import TTLAfterFinishedOptions

CONTROLLER = Descriptor(
    name="ttl-after-finished-controller",
    aliases=("ttl-after-finished",),
    load=".reconciler:TTLAfterFinishedReconciler",
    requires=(JOBS,),
    options=TTLAfterFinishedOptions,
    permissions=(allow(JOBS, "delete", "get", "list", "watch"), *RECORD_EVENTS),
    metrics=("ttl_after_finished_controller_job_deletion_duration_seconds",),
)
