"""endpointslice-mirroring-controller: copies hand-made Endpoints into slices."""

from controller_manager.api.core.services import ENDPOINTS, SERVICES
from controller_manager.api.discovery.v1 import ENDPOINT_SLICES
from controller_manager.informers.reads import Reads
from controller_manager.options.checks import between
from controller_manager.options.controller_options import ControllerOptions, option
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.permissions import RECORD_EVENTS, allow

_PREFIX = "endpoint_slice_mirroring_controller"
_FIELD = "EndpointSliceMirroringController.Mirroring"


class MirroringOptions(ControllerOptions):
    """The number of concurrent syncs, their delay, and the limit of addresses."""

    concurrent_syncs: int = option(
        "mirroring-concurrent-service-endpoint-syncs",
        "int32",
        "5",
        "The number of services' mirrored endpoint slices that are allowed to sync "
        "concurrently. Larger number = more responsive, but more CPU (and network) "
        "load.",
        f"{_FIELD}ConcurrentServiceEndpointSyncs",
        check=between(1, 50),
    )
    batch_period: float = option(
        "mirroring-endpointslice-updates-batch-period",
        "duration",
        "0s",
        "The time for which changes of slices are collected before they are "
        "mirrored again.",
        f"{_FIELD}EndpointUpdatesBatchPeriod",
    )
    max_endpoints_per_subset: int = option(
        "mirroring-max-endpoints-per-subset",
        "int32",
        "1000",
        "The largest number of endpoints of a subset that are mirrored.",
        f"{_FIELD}MaxEndpointsPerSubset",
        check=between(1, 1000),
    )


CONTROLLER = Descriptor(
    name="endpointslice-mirroring-controller",
    aliases=("endpointslicemirroring",),
    load=".controller:MirroringReconciler",
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
