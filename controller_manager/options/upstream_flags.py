"""Flags of those controllers of kube-controller-manager 1.36 that this build lacks.

When a controller is added, its flags move from here to its own options.
"""

from typing import Final

from controller_manager.options.checks import (
    Check,
    at_least,
)
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


def _syncs(
    title: str,
    flag: str,
    default: int,
    path: str,
    what: str,
    check: Check | None = None,
) -> Flag:
    """Return the flag for the number of objects that a controller syncs at a time."""
    (made,) = section(
        title,
        Flag(
            flag,
            "int32",
            str(default),
            f"The number of {what} that are allowed to sync concurrently. Larger "
            "number = more responsive, but more CPU (and network) load.",
            path,
            check=check,
        ),
    )
    return made


_CONTROLLERS: Final = (
    _syncs(
        "Ephemeral-volume-controller",
        "concurrent-ephemeralvolume-syncs",
        5,
        "EphemeralVolumeController.ConcurrentEphemeralVolumeSyncs",
        "ephemeral volumes",
        check=at_least(1),
    ),
)


UPSTREAM_FLAGS: Final = (
    *_SERVICE_LB,
    *_CONTROLLERS,
)
