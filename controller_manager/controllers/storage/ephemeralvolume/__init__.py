"""ephemeral-volume-controller: creates claims for ephemeral volumes of pods."""

from controller_manager.api.core.claims import CLAIMS
from controller_manager.api.core.v1 import PODS
from controller_manager.informers.reads import Reads
from controller_manager.options.controller_options import ControllerOptions, concurrency
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.permissions import RECORD_EVENTS, allow


class EphemeralVolumeOptions(ControllerOptions):
    """The number of pods that are synced at a time."""

    concurrent_syncs: int = concurrency(
        "concurrent-ephemeralvolume-syncs",
        5,
        "EphemeralVolumeController.ConcurrentEphemeralVolumeSyncs",
        "ephemeral volumes",
    )


CONTROLLER = Descriptor(
    name="ephemeral-volume-controller",
    aliases=("ephemeral-volume",),
    load=".controller:EphemeralVolumeReconciler",
    requires=(PODS, CLAIMS),
    makes=((CLAIMS, "Pod"),),
    reads=(
        Reads(
            PODS,
            *("spec.volumes.name", "spec.volumes.ephemeral"),
            "spec.volumes.persistentVolumeClaim",
        ),
        Reads(CLAIMS),
    ),
    options=EphemeralVolumeOptions,
    permissions=(
        allow(PODS, "get", "list", "watch"),
        allow(PODS, "update", subresource="finalizers"),
        allow(CLAIMS, "create", "get", "list", "watch"),
        *RECORD_EVENTS,
    ),
    component="ephemeral_volume",
    metrics=(
        "ephemeral_volume_controller_create_failures_total",
        "ephemeral_volume_controller_create_total",
    ),
)
