"""certificatesigningrequest-cleaner-controller: deletes old requests."""

from controller_manager.api.certificates.v1 import SIGNING_REQUESTS
from controller_manager.control.certificates import PERMISSIONS, SERVICE_ACCOUNT
from controller_manager.runtime.descriptor import Descriptor

CONTROLLER = Descriptor(
    name="certificatesigningrequest-cleaner-controller",
    aliases=("csrcleaner",),
    load=".controller:CleaningReconciler",
    requires=(SIGNING_REQUESTS,),
    permissions=PERMISSIONS,
    service_account=SERVICE_ACCOUNT,
)
