"""selinux-warning-controller: warns of pods that cannot share a volume."""

from typing import Final

from controller_manager.api.core.claims import CLAIMS
from controller_manager.api.core.v1 import PODS
from controller_manager.api.core.volumes import PERSISTENT_VOLUMES
from controller_manager.api.storage.v1 import CSI_DRIVERS
from controller_manager.informers.reads import Reads
from controller_manager.options.gates import Gate
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.permissions import RECORD_EVENTS, allow

CHANGE_POLICY: Final = Gate("SELinuxChangePolicy", locked=True)
"""Pods choose how the label of their volumes is changed."""

READ_WRITE_ONCE_POD: Final = Gate("SELinuxMountReadWriteOncePod", locked=True)
"""Volumes that only one pod may use are mounted with the label of the pod."""

_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")

CONTROLLER = Descriptor(
    name="selinux-warning-controller",
    load=".controller:SELinuxWarningReconciler",
    requires=(PODS, CLAIMS, PERSISTENT_VOLUMES, CSI_DRIVERS),
    reads=(
        Reads(
            PODS,
            *("spec.volumes", "spec.securityContext", "status.phase"),
            *(f"spec.{each}.securityContext" for each in _CONTAINERS),
            *(f"spec.{each}.volumeMounts" for each in _CONTAINERS),
        ),
        Reads(CSI_DRIVERS, "spec.seLinuxMount"),
    ),
    gates=(READ_WRITE_ONCE_POD,),
    requires_gates=(CHANGE_POLICY,),
    permissions=(
        allow(PODS, "get", "list", "watch"),
        allow(CLAIMS, "get", "list", "watch"),
        allow(PERSISTENT_VOLUMES, "get", "list", "watch"),
        allow(CSI_DRIVERS, "get", "list", "watch"),
        *RECORD_EVENTS,
    ),
    metrics=("selinux_warning_controller_selinux_volume_conflict",),
    component="selinux_warning",
    disabled_by_default=True,
)
