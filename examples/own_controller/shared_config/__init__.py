"""shared-config-controller: copies one config map into every namespace."""

import re
from typing import Final

from controller_manager.sdk import (
    RECORD_EVENTS,
    ControllerOptions,
    Descriptor,
    allow,
    core_v1,
    option,
)

_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def _namespace(value: str) -> str:
    """Return the faults of the name of a namespace, empty for none."""
    if _NAMESPACE.fullmatch(value):
        return ""
    return f"must be the name of a namespace, it is {value!r}"


class SharedConfigOptions(ControllerOptions):
    """Where the config map is that is copied."""

    source_namespace: str = option(
        "shared-config-namespace",
        "string",
        "kube-system",
        "The namespace whose config map shared-config is copied into all others.",
        check=_namespace,
    )


CONTROLLER = Descriptor(
    name="shared-config-controller",
    aliases=("shared-config",),
    load="shared_config.controller:SharedConfigReconciler",
    requires=(core_v1.NAMESPACES, core_v1.CONFIG_MAPS),
    options=SharedConfigOptions,
    permissions=(allow(core_v1.CONFIG_MAPS, "create", "update"), *RECORD_EVENTS),
    metrics=("shared_config_writes_total",),
)
