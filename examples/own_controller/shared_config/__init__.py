"""shared-config-controller: copies one config map into every namespace."""

from controller_manager.api.core.v1 import CONFIG_MAPS, NAMESPACES
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.permissions import RECORD_EVENTS, allow
from shared_config.options import SharedConfigOptions

CONTROLLER = Descriptor(
    name="shared-config-controller",
    aliases=("shared-config",),
    load="shared_config.reconciler:SharedConfigReconciler",
    requires=(NAMESPACES, CONFIG_MAPS),
    options=SharedConfigOptions,
    permissions=(allow(CONFIG_MAPS, "create", "update"), *RECORD_EVENTS),
    metrics=("shared_config_writes_total",),
)
