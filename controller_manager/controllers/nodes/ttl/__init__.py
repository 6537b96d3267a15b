"""ttl-controller: tells kubelets how long they may cache config maps and secrets."""

from controller_manager.api.core.v1 import NODE_TTL, NODES
from controller_manager.informers.reads import Reads
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.permissions import RECORD_EVENTS, allow

CONTROLLER = Descriptor(
    name="ttl-controller",
    aliases=("ttl",),
    load=".controller:TTLReconciler",
    requires=(NODES,),
    reads=(Reads(NODES, f"metadata.annotations[{NODE_TTL}]"),),
    permissions=(allow(NODES, "list", "patch", "update", "watch"), *RECORD_EVENTS),
)
