"""The flag of the controller."""

import re
from typing import Final

from controller_manager.options.controller_options import ControllerOptions, option
from controller_manager.options.flag import Flag

_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def _namespace(value: str) -> str:
    """Return the faults of the name of a namespace, empty for none."""
    if _NAMESPACE.fullmatch(value):
        return ""
    return f"must be the name of a namespace, it is {value!r}"


class SharedConfigOptions(ControllerOptions):
    """Where the config map is that is copied."""

    source_namespace: str = option(
        Flag(
            "shared-config-namespace",
            "string",
            "kube-system",
            "The namespace whose config map shared-config is copied into all others.",
            check=_namespace,
        )
    )
