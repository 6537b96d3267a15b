"""Flags of the controllers of cloud providers, which run nowhere since 1.31."""

from typing import Final

from .flag import Flag, section

_SERVICE_LB: Final = section(
    "Service-lb-controller",
    Flag(
        "concurrent-service-syncs",
        "int32",
        "1",
        "The number of services to sync concurrently.",
        "ServiceController.ConcurrentServiceSyncs",
        inert="this build has no cloud provider",
        inert_upstream=True,
    ),
)

UPSTREAM_FLAGS: Final = _SERVICE_LB
