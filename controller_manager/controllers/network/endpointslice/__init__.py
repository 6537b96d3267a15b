"""endpointslice-controller: writes the endpoint slices of services that select pods."""

from controller_manager.api.core.services import SERVICES
from controller_manager.api.core.v1 import NODES, PODS
from controller_manager.api.discovery.v1 import ENDPOINT_SLICES
from controller_manager.informers.reads import Reads
from controller_manager.options.checks import between
from controller_manager.options.controller_options import (
    ControllerOptions,
    concurrency,
    option,
)
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.permissions import RECORD_EVENTS, allow


class EndpointSliceOptions(ControllerOptions):
    """The number of concurrent syncs, their delay, and the size of slices."""

    concurrent_syncs: int = concurrency(
        "concurrent-service-endpoint-syncs",
        5,
        "EndpointSliceController.ConcurrentServiceEndpointSyncs",
        "services' endpoint slices",
        check=between(1, 50),
    )
    updates_batch_period: float = option(
        "endpointslice-updates-batch-period",
        "duration",
        "0s",
        "The time for which changes of pods are collected before slices are updated.",
        "EndpointSliceController.EndpointUpdatesBatchPeriod",
    )
    max_endpoints_per_slice: int = option(
        "max-endpoints-per-slice",
        "int32",
        "100",
        "The largest number of endpoints in a slice.",
        "EndpointSliceController.MaxEndpointsPerSlice",
        check=between(1, 1000),
    )


CONTROLLER = Descriptor(
    name="endpointslice-controller",
    aliases=("endpointslice",),
    load=".controller:init_endpoint_slice_controller",
    requires=(SERVICES, PODS, NODES, ENDPOINT_SLICES),
    makes=((ENDPOINT_SLICES, "Service"),),
    reads=(
        Reads(
            PODS,
            *("spec.nodeName", "spec.hostname", "spec.subdomain"),
            "spec.containers.ports",
            *("spec.initContainers.ports", "spec.initContainers.restartPolicy"),
            *("status.phase", "status.podIP", "status.podIPs"),
            "status.conditions[Ready]",
        ),
        Reads(NODES, "status.allocatable.cpu", "status.conditions[Ready]"),
        Reads(SERVICES, "metadata.annotations", "spec"),
    ),
    options=EndpointSliceOptions,
    permissions=(
        allow(SERVICES, "get", "list", "watch"),
        allow(PODS, "get", "list", "watch"),
        allow(NODES, "get", "list", "watch"),
        allow(SERVICES, "update", subresource="finalizers"),
        allow(ENDPOINT_SLICES, "create", "delete", "get", "list", "update", "watch"),
        *RECORD_EVENTS,
    ),
    metrics=(
        "endpoint_slice_controller_changes",
        "endpoint_slice_controller_desired_endpoint_slices",
        "endpoint_slice_controller_endpoints_added_per_sync",
        "endpoint_slice_controller_endpoints_desired",
        "endpoint_slice_controller_endpoints_removed_per_sync",
        "endpoint_slice_controller_endpointslices_changed_per_sync",
        "endpoint_slice_controller_num_endpoint_slices",
        "endpoint_slice_controller_services_count_by_traffic_distribution",
        "endpoint_slice_controller_syncs",
    ),
    component="endpoint-slice-controller",
)
