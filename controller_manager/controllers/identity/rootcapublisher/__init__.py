"""root-ca-certificate-publisher-controller: publishes the CA in every namespace."""

from controller_manager.api.core.v1 import CONFIG_MAPS, NAMESPACES
from controller_manager.runtime.descriptor import Descriptor, lacks_authority
from controller_manager.runtime.permissions import RECORD_EVENTS, allow

CONTROLLER = Descriptor(
    name="root-ca-certificate-publisher-controller",
    aliases=("root-ca-cert-publisher",),
    load=".controller:RootCAReconciler",
    requires=(NAMESPACES, CONFIG_MAPS),
    # Without an authority upstream publishes an empty one over a good one.
    lacks=lacks_authority,
    permissions=(allow(CONFIG_MAPS, "create", "update"), *RECORD_EVENTS),
    metrics=(
        "root_ca_cert_publisher_sync_duration_seconds",
        "root_ca_cert_publisher_sync_total",
    ),
    service_account="root-ca-cert-publisher",
)
