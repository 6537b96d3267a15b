"""token-cleaner-controller: deletes bootstrap tokens that have expired."""

from controller_manager.api.core.secrets import NAMESPACE, SECRETS
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.permissions import RECORD_EVENTS, allow, within

CONTROLLER = Descriptor(
    name="token-cleaner-controller",
    aliases=("tokencleaner",),
    load=".controller:TokenCleanerReconciler",
    requires=(SECRETS,),
    permissions=within(
        NAMESPACE,
        allow(SECRETS, "delete", "get", "list", "watch"),
        *RECORD_EVENTS,
    ),
    service_account="token-cleaner",
    disabled_by_default=True,
)
