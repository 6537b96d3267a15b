"""Fields of the configuration file that no flag sets."""

from collections.abc import Mapping
from typing import Any, Final

from .flag import FlagType

FILE_ONLY: Final[tuple[tuple[str, FlagType, Any], ...]] = (
    ("Generic.Port", "int32", 0),
    ("Generic.Address", "string", "0.0.0.0"),  # noqa: S104 - upstream's default
    ("Generic.ClientConnection.acceptContentTypes", "string", ""),
    ("KubeCloudShared.AllowUntaggedCloud", "bool", False),
    ("KubeCloudShared.NodeSyncPeriod", "duration", "0s"),
    ("NodeIPAMController.SecondaryServiceCIDR", "string", ""),
    ("NodeLifecycleController.PodEvictionTimeout", "duration", "0s"),
    (
        (
            "PersistentVolumeBinderController.VolumeConfiguration"
            ".PersistentVolumeRecyclerConfiguration.MaximumRetry"
        ),
        "int32",
        3,
    ),
)
"""Fields of upstream's configuration that no flag sets; none has an effect."""

CARRIED: Final[Mapping[str, Any]] = {
    "Generic.LeaderMigration": {
        "leaderName": "",
        "resourceLock": "",
        "controllerLeaders": None,
    },
    "DeprecatedController": {},
    "GarbageCollectorController.GCIgnoredResources": [
        {"Group": "", "Resource": "events"},
        {"Group": "events.k8s.io", "Resource": "events"},
    ],
}
"""Fields of upstream's configuration that are read and shown, without an effect."""

RESERVED: Final = frozenset(
    ("apiVersion", "kind", *(path for path, _, _ in FILE_ONLY), *CARRIED)
)
"""Paths that no flag may have."""
