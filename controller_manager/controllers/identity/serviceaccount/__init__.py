"""serviceaccount-controller: creates the account default in every namespace."""

from controller_manager.api.core.v1 import NAMESPACES, SERVICE_ACCOUNTS
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.permissions import RECORD_EVENTS, allow

CONTROLLER = Descriptor(
    name="serviceaccount-controller",
    aliases=("serviceaccount",),
    load=".controller:ServiceAccountReconciler",
    requires=(NAMESPACES, SERVICE_ACCOUNTS),
    permissions=(allow(SERVICE_ACCOUNTS, "create"), *RECORD_EVENTS),
    service_account="service-account-controller",
)
