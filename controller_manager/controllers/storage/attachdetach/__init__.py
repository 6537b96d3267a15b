"""persistentvolume-attach-detach-controller: attaches volumes to the nodes of pods."""

from controller_manager.api.core.claims import CLAIMS
from controller_manager.api.core.v1 import NODES, PODS
from controller_manager.api.core.volumes import PERSISTENT_VOLUMES
from controller_manager.api.storage.v1 import ATTACHMENTS, CSI_DRIVERS, CSI_NODES
from controller_manager.informers.reads import Reads
from controller_manager.options.checks import at_least_a_second
from controller_manager.options.controller_options import ControllerOptions, option
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.permissions import RECORD_EVENTS, allow


class AttachDetachOptions(ControllerOptions):
    """The flags about lost attachments and about detaching by force."""

    reconcile_sync_period: float = option(
        "attach-detach-reconcile-sync-period",
        "duration",
        "1m0s",
        "Time until a volume that a node lists as attached, and whose attachment "
        "is lost, is attached again.",
        "AttachDetachController.ReconcilerSyncLoopPeriod",
        check=at_least_a_second,
    )
    disable_reconcile_sync: bool = option(
        "disable-attach-detach-reconcile-sync",
        "bool",
        "false",
        "Do not attach volumes again whose attachments are lost.",
        "AttachDetachController.DisableAttachDetachReconcilerSync",
    )
    disable_force_detach: bool = option(
        "disable-force-detach-on-timeout",
        "bool",
        "false",
        "Do not detach by force volumes that could not be unmounted in time.",
        "AttachDetachController.disableForceDetachOnTimeout",
    )


CONTROLLER = Descriptor(
    name="persistentvolume-attach-detach-controller",
    aliases=("attachdetach",),
    load=".controller:AttachDetachReconciler",
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
            "status.initContainerStatuses.state",
            "status.ephemeralContainerStatuses.state",
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
