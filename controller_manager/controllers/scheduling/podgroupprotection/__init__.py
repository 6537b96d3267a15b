"""podgroup-protection-controller: keeps deleted groups of pods while pods use them."""

from typing import Final

from controller_manager.api.core.v1 import PODS
from controller_manager.api.scheduling.v1alpha2 import POD_GROUPS
from controller_manager.informers.reads import Reads
from controller_manager.options.gates import Gate
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.permissions import allow

GENERIC_WORKLOAD: Final = Gate("GenericWorkload", "ALPHA", default=False)
"""API servers have groups of pods."""


CONTROLLER = Descriptor(
    name="podgroup-protection-controller",
    load=".controller:PodGroupProtectionReconciler",
    requires=(POD_GROUPS, PODS),
    requires_gates=(GENERIC_WORKLOAD,),
    reads=(Reads(PODS, "spec.schedulingGroup", "status.phase"),),
    permissions=(
        allow(POD_GROUPS, "get", "list", "update", "watch"),
        allow(PODS, "get", "list", "watch"),
    ),
)
