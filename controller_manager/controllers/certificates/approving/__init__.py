"""certificatesigningrequest-approving-controller: approves requests of kubelets."""

from controller_manager.api.authorization.v1 import SUBJECT_ACCESS_REVIEWS
from controller_manager.api.certificates.v1 import SIGNING_REQUESTS
from controller_manager.control.certificates import PERMISSIONS, SERVICE_ACCOUNT
from controller_manager.runtime.descriptor import Descriptor

CONTROLLER = Descriptor(
    name="certificatesigningrequest-approving-controller",
    aliases=("csrapproving",),
    load=".controller:ApprovingReconciler",
    requires=(SIGNING_REQUESTS, SUBJECT_ACCESS_REVIEWS),
    permissions=PERMISSIONS,
    service_account=SERVICE_ACCOUNT,
)
