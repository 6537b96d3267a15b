"""service-cidr-controller: keeps ranges of addresses while services use them."""

from controller_manager.api.networking.v1 import IP_ADDRESS_METADATA, SERVICE_CIDRS
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.permissions import RECORD_EVENTS, allow

CONTROLLER = Descriptor(
    name="service-cidr-controller",
    load=".controller:ServiceCIDRReconciler",
    requires=(SERVICE_CIDRS, IP_ADDRESS_METADATA),
    permissions=(
        allow(SERVICE_CIDRS, "get", "list", "patch", "update", "watch"),
        allow(SERVICE_CIDRS, "patch", "update", subresource="finalizers"),
        allow(SERVICE_CIDRS, "patch", "update", subresource="status"),
        allow(IP_ADDRESS_METADATA, "get", "list", "watch"),
        *RECORD_EVENTS,
    ),
    service_account="service-cidrs-controller",
)
