"""bootstrap-signer-controller: signs cluster-info with the bootstrap tokens."""

from typing import Final

from controller_manager.api.core.secrets import NAMESPACE, SECRETS
from controller_manager.api.core.v1 import CONFIG_MAPS
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.permissions import RECORD_EVENTS, allow, within

PUBLIC: Final = "kube-public"
CLUSTER_INFO: Final = "cluster-info"

CONTROLLER = Descriptor(
    name="bootstrap-signer-controller",
    aliases=("bootstrapsigner",),
    load=".controller:BootstrapSignerReconciler",
    requires=(CONFIG_MAPS, SECRETS),
    permissions=(
        *within(NAMESPACE, allow(SECRETS, "get", "list", "watch")),
        *within(
            PUBLIC,
            allow(CONFIG_MAPS, "get", "list", "watch"),
            allow(CONFIG_MAPS, "update", names=(CLUSTER_INFO,)),
            *RECORD_EVENTS,
        ),
    ),
    service_account="bootstrap-signer",
    disabled_by_default=True,
)
