"""podcertificaterequest-cleaner-controller: deletes old requests of pods."""

from typing import Final

from controller_manager.api.certificates.v1beta1 import POD_CERTIFICATE_REQUEST_METADATA
from controller_manager.options.gates import Gate
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.permissions import allow

POD_CERTIFICATE_REQUEST: Final = Gate("PodCertificateRequest", default=False)
"""Kubelets request certificates for pods."""


CONTROLLER = Descriptor(
    name="podcertificaterequest-cleaner-controller",
    load=".controller:PodCertificateRequestReconciler",
    requires=(POD_CERTIFICATE_REQUEST_METADATA,),
    requires_gates=(POD_CERTIFICATE_REQUEST,),
    permissions=(
        allow(POD_CERTIFICATE_REQUEST_METADATA, "delete", "get", "list", "watch"),
    ),
    service_account="podcertificaterequestcleaner",
)
