"""endpoints-controller: writes the addresses of a service's pods into its Endpoints."""

from controller_manager.api.core.services import ENDPOINTS, SERVICES
from controller_manager.api.core.v1 import PODS
from controller_manager.informers.reads import Reads
from controller_manager.options.controller_options import (
    ControllerOptions,
    concurrency,
    option,
)
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.permissions import RECORD_EVENTS, allow


class EndpointsOptions(ControllerOptions):
    """The number of concurrent syncs, and the time for which changes are collected."""

    concurrent_syncs: int = concurrency(
        "concurrent-endpoint-syncs",
        5,
        "EndpointController.ConcurrentEndpointSyncs",
        "endpoints",
    )
    batch_period: float = option(
        "endpoint-updates-batch-period",
        "duration",
        "0s",
        "The time for which changes of pods are collected before endpoints are "
        "updated.",
        "EndpointController.EndpointUpdatesBatchPeriod",
    )


CONTROLLER = Descriptor(
    name="endpoints-controller",
    aliases=("endpoint",),
    load=".controller:EndpointsReconciler",
    requires=(SERVICES, PODS, ENDPOINTS),
    reads=(
        Reads(
            SERVICES,
            *("spec.ports", "spec.selector", "spec.clusterIP", "spec.type"),
            *("spec.ipFamilies", "spec.publishNotReadyAddresses"),
        ),
        Reads(
            PODS,
            *("spec.nodeName", "spec.hostname", "spec.subdomain"),
            "spec.containers.ports",
            *("spec.initContainers.restartPolicy", "spec.initContainers.ports"),
            *("status.phase", "status.podIP", "status.podIPs"),
            "status.conditions[Ready]",
        ),
    ),
    options=EndpointsOptions,
    permissions=(
        allow(SERVICES, "get", "list", "watch"),
        allow(PODS, "get", "list", "watch"),
        allow(ENDPOINTS, "create", "delete", "get", "list", "update", "watch"),
        allow(ENDPOINTS, "create", subresource="restricted"),
        *RECORD_EVENTS,
    ),
    component="endpoint-controller",
    service_account="endpoint-controller",
)
