"""podcertificaterequest-cleaner-controller: deletes old requests of pods."""

from controller_manager.api.certificates.v1beta1 import POD_CERTIFICATE_REQUEST_METADATA
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.permissions import allow

from . import options

CONTROLLER = Descriptor(
    name="podcertificaterequest-cleaner-controller",
    load=".reconciler:PodCertificateRequestReconciler",
    requires=(POD_CERTIFICATE_REQUEST_METADATA,),
    requires_gates=(options.POD_CERTIFICATE_REQUEST,),
    permissions=(
        allow(POD_CERTIFICATE_REQUEST_METADATA, "delete", "get", "list", "watch"),
    ),
    service_account="podcertificaterequestcleaner",
)
