"""certificatesigningrequest-signing-controller: signs approved requests."""

from controller_manager.api.certificates.v1 import SIGNING_REQUESTS
from controller_manager.control.certificates import PERMISSIONS, SERVICE_ACCOUNT
from controller_manager.options.config import Config
from controller_manager.runtime.descriptor import Descriptor

from .options import SigningOptions


def _lacks(config: Config, _: str) -> str:
    if config.of(SigningOptions).authorities():
        return ""
    return "--cluster-signing-cert-file and --cluster-signing-key-file"


CONTROLLER = Descriptor(
    name="certificatesigningrequest-signing-controller",
    aliases=("csrsigning",),
    load=".controller:SigningReconciler",
    requires=(SIGNING_REQUESTS,),
    options=SigningOptions,
    lacks=_lacks,
    permissions=PERMISSIONS,
    service_account=SERVICE_ACCOUNT,
)
