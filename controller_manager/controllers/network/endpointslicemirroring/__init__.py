"""endpointslice-mirroring-controller: copies hand-made Endpoints into slices."""

from controller_manager.api.core.endpoints import ENDPOINTS
from controller_manager.api.core.services import SERVICES
from controller_manager.api.discovery.v1 import ENDPOINT_SLICES
from controller_manager.informers.reads import Reads
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.permissions import RECORD_EVENTS, allow

from .options import MirroringOptions

_PREFIX = "endpoint_slice_mirroring_controller"

CONTROLLER = Descriptor(
    name="endpointslice-mirroring-controller",
    aliases=("endpointslicemirroring",),
    load=".reconciler:MirroringReconciler",
    requires=(ENDPOINTS, ENDPOINT_SLICES, SERVICES),
    reads=(Reads(SERVICES, "spec.selector"),),
    options=MirroringOptions,
    permissions=(
        allow(SERVICES, "get", "list", "watch"),
        allow(ENDPOINTS, "get", "list", "watch"),
        # They own slices with blockOwnerDeletion.
        allow(SERVICES, "update", subresource="finalizers"),
        allow(ENDPOINTS, "update", subresource="finalizers"),
        allow(ENDPOINT_SLICES, "create", "delete", "get", "list", "update", "watch"),
        *RECORD_EVENTS,
    ),
    metrics=(
        f"{_PREFIX}_endpoints_added_per_sync",
        f"{_PREFIX}_endpoints_updated_per_sync",
        f"{_PREFIX}_endpoints_removed_per_sync",
        f"{_PREFIX}_addresses_skipped_per_sync",
        f"{_PREFIX}_endpoints_sync_duration",
        f"{_PREFIX}_endpoints_desired",
        f"{_PREFIX}_num_endpoint_slices",
        f"{_PREFIX}_desired_endpoint_slices",
        f"{_PREFIX}_changes",
    ),
    component="endpoint-slice-mirroring-controller",
    service_account="endpointslicemirroring-controller",
)
