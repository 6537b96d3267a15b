"""persistentvolume-expander-controller: has the volumes of growing claims expanded."""

from controller_manager.api.core.claims import CLAIMS
from controller_manager.api.core.volumes import PERSISTENT_VOLUMES
from controller_manager.informers.reads import Reads
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.permissions import RECORD_EVENTS, allow

from . import options

CONTROLLER = Descriptor(
    name="persistentvolume-expander-controller",
    aliases=("persistentvolume-expander",),
    load=".reconciler:VolumeExpanderReconciler",
    requires=(CLAIMS, PERSISTENT_VOLUMES),
    gates=(options.RECOVER,),
    reads=(Reads(CLAIMS), Reads(PERSISTENT_VOLUMES)),
    permissions=(
        allow(PERSISTENT_VOLUMES, "get", "list", "patch", "update", "watch"),
        allow(CLAIMS, "patch", "update", subresource="status"),
        allow(CLAIMS, "get", "list", "watch"),
        *RECORD_EVENTS,
    ),
    service_account="expand-controller",
    component="volume_expand",
    metrics=("storage_operation_duration_seconds",),
)
