"""persistentvolume-attach-detach-controller: attaches volumes to the nodes of pods.

``volumes`` finds the volumes of a pod, ``view`` the places of a node: each is one
volume on this node. ``decide`` chooses what to do about one place, ``plan`` about all
of them (pure functions on the data in ``places``); ``apply`` does it, ``reconciler``
has the watches, ``memories`` what is remembered. ``holds`` keeps two nodes from one
exclusive volume.
"""

from controller_manager.api.core.claims import CLAIMS
from controller_manager.api.core.v1 import NODES, PODS
from controller_manager.api.core.volumes import PERSISTENT_VOLUMES
from controller_manager.api.storage.v1 import ATTACHMENTS, CSI_DRIVERS, CSI_NODES
from controller_manager.controllers.storage.attachdetach.options import (
    AttachDetachOptions,
)
from controller_manager.informers.reads import Reads
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.permissions import RECORD_EVENTS, allow

CONTROLLER = Descriptor(
    name="persistentvolume-attach-detach-controller",
    aliases=("attachdetach",),
    load=".reconciler:AttachDetachReconciler",
    requires=(ATTACHMENTS, CLAIMS, CSI_DRIVERS, NODES, PERSISTENT_VOLUMES, PODS),
    reads=(
        Reads(ATTACHMENTS, "spec", "status"),
        Reads(CLAIMS),
        Reads(CSI_DRIVERS, "spec.attachRequired"),
        Reads(
            NODES,
            "metadata.annotations[volumes.kubernetes.io/controller-managed-attach-detach]",
            "metadata.annotations[volumes.kubernetes.io/keep-terminated-pod-volumes]",
            *("spec.taints", "status.conditions[Ready]"),
            *("status.volumesAttached", "status.volumesInUse"),
        ),
        Reads(PERSISTENT_VOLUMES),
        Reads(
            PODS,
            *("spec.nodeName", "spec.volumes", "status.phase"),
            "status.containerStatuses.state",
        ),
    ),
    options=AttachDetachOptions,
    permissions=(
        allow(PERSISTENT_VOLUMES, "list", "watch"),
        allow(CLAIMS, "list", "watch"),
        allow(NODES, "get", "list", "watch"),
        allow(NODES, "patch", "update", subresource="status"),
        allow(PODS, "list", "watch"),
        *RECORD_EVENTS,
        allow(ATTACHMENTS, "create", "delete", "get", "list", "watch"),
        allow(CSI_DRIVERS, "get", "list", "watch"),
        allow(CSI_NODES, "get", "list", "watch"),
    ),
    metrics=(
        "attach_detach_controller_attachdetach_controller_forced_detaches",
        "attachdetach_controller_total_volumes",
        "storage_count_attachable_volumes_in_use",
        "storage_operation_duration_seconds",
    ),
    component="attachdetach-controller",
    service_account="attachdetach-controller",
)
