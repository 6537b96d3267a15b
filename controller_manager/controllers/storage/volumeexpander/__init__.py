"""persistentvolume-expander-controller: has the volumes of growing claims expanded."""

from typing import Final

from controller_manager.api.core.claims import CLAIMS
from controller_manager.api.core.volumes import PERSISTENT_VOLUMES
from controller_manager.informers.reads import Reads
from controller_manager.options.gates import Gate
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.permissions import RECORD_EVENTS, allow

RECOVER: Final = Gate("RecoverVolumeExpansionFailure", locked=True)
"""The status of a claim has the state of its expansion; it may request less again."""

CONTROLLER = Descriptor(
    name="persistentvolume-expander-controller",
    aliases=("persistentvolume-expander",),
    load=".controller:VolumeExpanderReconciler",
    requires=(CLAIMS, PERSISTENT_VOLUMES),
    gates=(RECOVER,),
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
