"""Deliberate bugs of the migrator."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from controller_manager.api.storagemigration.v1beta1 import StorageVersionMigration
from controller_manager.controllers.cluster.storageversionmigrator import conditions
from controller_manager.controllers.cluster.storageversionmigrator.controller import (
    MigrationReconciler,
    Stored,
)
from tests.simulation.planted import Bug

_stored_until = MigrationReconciler._stored_until


async def _miss_the_last(*args: Any) -> list[Stored]:
    return (await _stored_until(*args))[:-1]


def _next_of_all(
    migrations: Iterable[StorageVersionMigration],
) -> StorageVersionMigration | None:
    """Do not wait for the one that runs."""
    waiting = [
        each
        for each in migrations
        if not conditions.has_ended(each) and not conditions.is_running(each)
    ]
    return min(waiting, key=lambda each: each.metadata.name, default=None)


async def _never_complete(_: MigrationReconciler, __: StorageVersionMigration) -> None:
    return


BUGS: Final[Mapping[str, Bug]] = {
    "miss an object in a migration": Bug(
        1, MigrationReconciler, "_stored_until", _miss_the_last
    ),
    "run two migrations of a resource": Bug(1, conditions, "next_of", _next_of_all),
    "let an ended migration run on": Bug(
        1, MigrationReconciler, "_complete", _never_complete
    ),
    "let the next migration wait for ever": Bug(
        0,
        MigrationReconciler,
        "watches",
        MigrationReconciler.watches[:1],
        "migration-that-waits-for-another",
    ),
}
