"""persistentvolumeclaim-protection-controller: keeps claims that pods use.

``use`` decides which claims a pod uses (pure functions); ``live_pods`` lists the pods
of a namespace from the API server; ``reconciler`` adds and removes the finalizer.
Behind a gate, ``unused`` and ``tracking`` say since when no pod uses a claim.
"""

from controller_manager.api.core.claims import CLAIMS
from controller_manager.api.core.v1 import (
    PODS,
)
from controller_manager.controllers.storage.claimprotection.gates import UNUSED_SINCE
from controller_manager.informers.reads import Reads
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.permissions import RECORD_EVENTS, allow

CONTROLLER = Descriptor(
    name="persistentvolumeclaim-protection-controller",
    aliases=("pvc-protection",),
    load=".tracking:init_claim_protection",
    requires=(CLAIMS, PODS),
    reads=(
        Reads(
            PODS,
            "metadata.deletionGracePeriodSeconds",
            *("spec.nodeName", "spec.volumes", "status.phase"),
        ),
        Reads(CLAIMS),
    ),
    gates=(UNUSED_SINCE,),
    gated_permissions=(
        (UNUSED_SINCE, (allow(CLAIMS, "update", subresource="status"),)),
    ),
    permissions=(
        allow(CLAIMS, "get", "list", "update", "watch"),
        allow(PODS, "get", "list", "watch"),
        *RECORD_EVENTS,
    ),
    service_account="pvc-protection-controller",
)
