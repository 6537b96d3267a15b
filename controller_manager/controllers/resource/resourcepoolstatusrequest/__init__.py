"""resourcepoolstatusrequest-controller: reports the available devices of pools."""

from typing import Final

from controller_manager.api.dynamicresources.v1 import RESOURCE_CLAIMS, RESOURCE_SLICES
from controller_manager.api.dynamicresources.v1alpha3 import (
    RESOURCE_POOL_STATUS_REQUESTS,
)
from controller_manager.informers.reads import Reads
from controller_manager.options.gates import Gate
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.permissions import RECORD_EVENTS, allow

POOL_STATUS: Final = Gate("DRAResourcePoolStatus", "ALPHA", default=False)
"""An API server has requests for the status of pools."""


CONTROLLER = Descriptor(
    name="resourcepoolstatusrequest-controller",
    load=".controller:PoolStatusReconciler",
    requires=(RESOURCE_POOL_STATUS_REQUESTS, RESOURCE_SLICES, RESOURCE_CLAIMS),
    requires_gates=(POOL_STATUS,),
    reads=(
        Reads(
            RESOURCE_SLICES,
            *("spec.driver", "spec.pool", "spec.nodeName", "spec.devices.name"),
        ),
        Reads(
            RESOURCE_CLAIMS,
            "status.allocation.devices.results.driver",
            "status.allocation.devices.results.pool",
        ),
    ),
    permissions=(
        allow(RESOURCE_POOL_STATUS_REQUESTS, "delete", "get", "list", "watch"),
        allow(RESOURCE_POOL_STATUS_REQUESTS, "patch", "update", subresource="status"),
        allow(RESOURCE_SLICES, "get", "list", "watch"),
        allow(RESOURCE_CLAIMS, "get", "list", "watch"),
        *RECORD_EVENTS,
    ),
    metrics=(
        "resourcepoolstatusrequest_controller_request_processing_duration_seconds",
        "resourcepoolstatusrequest_controller_request_processing_errors_total",
        "resourcepoolstatusrequest_controller_requests_processed_total",
    ),
)
