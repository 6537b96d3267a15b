"""Flags of those controllers of kube-controller-manager 1.36 that this build lacks.

When a controller is added, its flags move from here to its own options.
"""

from typing import Final

from controller_manager.options.flag import Flag, section

_SERVICE_LB: Final = section(
    "Service-lb-controller",
    Flag(
        "concurrent-service-syncs",
        "int32",
        "1",
        "The number of services to sync concurrently.",
        "ServiceController.ConcurrentServiceSyncs",
        inert="this build has no cloud provider",
    ),
)

UPSTREAM_FLAGS: Final = _SERVICE_LB
