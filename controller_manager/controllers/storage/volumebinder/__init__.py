"""persistentvolume-binder-controller: binds claims and volumes to each other."""

from controller_manager.api.core.claims import CLAIMS
from controller_manager.api.core.v1 import EVENTS, NODES, PODS
from controller_manager.api.core.volumes import PERSISTENT_VOLUMES
from controller_manager.api.storage.v1 import STORAGE_CLASSES
from controller_manager.informers.reads import Reads
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.permissions import RECORD_EVENTS, allow

from .options import VolumeBinderOptions

CONTROLLER = Descriptor(
    name="persistentvolume-binder-controller",
    aliases=("persistentvolume-binder",),
    load=".controller:init_volume_binder_controller",
    requires=(PERSISTENT_VOLUMES, CLAIMS, STORAGE_CLASSES, PODS),
    reads=(
        Reads(PERSISTENT_VOLUMES),
        Reads(CLAIMS),
        Reads(
            STORAGE_CLASSES,
            *("metadata.annotations", "provisioner", "volumeBindingMode"),
        ),
        Reads(PODS, "spec.nodeName", "spec.volumes", "status.phase"),
    ),
    options=VolumeBinderOptions,
    permissions=(
        allow(PERSISTENT_VOLUMES, "create", "delete", "get", "list", "update", "watch"),
        allow(PERSISTENT_VOLUMES, "update", subresource="status"),
        allow(CLAIMS, "get", "list", "update", "watch"),
        allow(CLAIMS, "update", subresource="status"),
        allow(PODS, "create", "delete", "get", "list", "watch"),
        allow(STORAGE_CLASSES, "get", "list", "watch"),
        allow(NODES, "list", "watch"),
        allow(EVENTS, "watch"),
        *RECORD_EVENTS,
    ),
    metrics=(
        "pv_collector_bound_pv_count",
        "pv_collector_bound_pvc_count",
        "pv_collector_total_pv_count",
        "pv_collector_unbound_pv_count",
        "pv_collector_unbound_pvc_count",
        "retroactive_storageclass_errors_total",
        "retroactive_storageclass_total",
        "volume_operation_errors_total",
        "volume_operation_total_seconds",
    ),
    component="persistentvolume-controller",
    service_account="persistent-volume-binder",
)
