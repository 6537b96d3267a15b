"""persistentvolume-protection-controller: keeps volumes that are bound to claims."""

from controller_manager.api.core.volumes import PERSISTENT_VOLUMES
from controller_manager.informers.reads import Reads
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.permissions import RECORD_EVENTS, allow

CONTROLLER = Descriptor(
    name="persistentvolume-protection-controller",
    aliases=("pv-protection",),
    load=".controller:VolumeProtectionReconciler",
    requires=(PERSISTENT_VOLUMES,),
    reads=(Reads(PERSISTENT_VOLUMES),),
    permissions=(
        allow(PERSISTENT_VOLUMES, "get", "list", "update", "watch"),
        *RECORD_EVENTS,
    ),
    service_account="pv-protection-controller",
)
