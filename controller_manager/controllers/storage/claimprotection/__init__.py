"""persistentvolumeclaim-protection-controller: keeps claims that pods use."""

from typing import Final

from controller_manager.api.core.claims import CLAIMS
from controller_manager.api.core.v1 import PODS
from controller_manager.informers.reads import Reads
from controller_manager.options.gates import Gate
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.permissions import RECORD_EVENTS, allow

UNUSED_SINCE: Final = Gate(
    "PersistentVolumeClaimUnusedSinceTime", "ALPHA", default=False
)
"""A condition of a claim says since when no pod uses the claim."""

CONTROLLER = Descriptor(
    name="persistentvolumeclaim-protection-controller",
    aliases=("pvc-protection",),
    load=".controller:init_claim_protection",
    requires=(CLAIMS, PODS),
    reads=(
        Reads(
            PODS,
            "metadata.deletionGracePeriodSeconds",
            *("spec.nodeName", "spec.volumes", "status.phase"),
            "status.containerStatuses.state",
            "status.initContainerStatuses.state",
            "status.ephemeralContainerStatuses.state",
        ),
        Reads(CLAIMS),
    ),
    gates=(UNUSED_SINCE,),
    permissions=(
        allow(CLAIMS, "get", "list", "update", "watch"),
        allow(CLAIMS, "update", subresource="status"),
        allow(PODS, "get", "list", "watch"),
        *RECORD_EVENTS,
    ),
    service_account="pvc-protection-controller",
)
