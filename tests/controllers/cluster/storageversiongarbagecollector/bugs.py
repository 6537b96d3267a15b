"""Deliberate bugs of the collector of storage versions."""

from collections.abc import Mapping, Sequence
from typing import Final

from controller_manager.api.apiserverinternal.v1alpha1 import ServerStorageVersion
from controller_manager.controllers.cluster.storageversiongarbagecollector import (
    controller,
)
from controller_manager.controllers.cluster.storageversiongarbagecollector.controller import (  # noqa: E501 - a long path
    StorageVersionReconciler,
)
from tests.simulation.planted import Bug


async def _hold_no_lease(_: StorageVersionReconciler, __: str) -> bool:
    return False


def _first(listed: Sequence[ServerStorageVersion]) -> str:
    """Take the version of the first API server for that of all."""
    return listed[0].encoding_version


BUGS: Final[Mapping[str, Bug]] = {
    "drop API servers by what the cache shows": Bug(
        0,
        StorageVersionReconciler,
        "_holds_lease",
        _hold_no_lease,
        "storage-version-of-an-unseen-server",
    ),
    "miss that an API server is gone": Bug(
        0,
        StorageVersionReconciler,
        "watches",
        StorageVersionReconciler.watches[:1],
        "storage-version-of-a-lost-server",
    ),
    "take one version for that of all": Bug(2, controller, "_common_version", _first),
}
