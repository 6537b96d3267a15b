"""Conditions of migrations (storageversionmigrator/util.go, migrationrunner.go)."""

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from controller_manager.api.meta import Condition, find_condition, set_condition
from controller_manager.api.storagemigration.v1beta1 import StorageVersionMigration

RUNNING: Final = "Running"
SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"


def resource_of(migration: StorageVersionMigration) -> str:
    """Return the resource that is migrated: ``deployments.apps`` or ``secrets.``."""
    return f"{migration.spec.resource.resource}.{migration.spec.resource.group}"


def is_running(migration: StorageVersionMigration) -> bool:
    """Tell whether a migration has begun, and its end is not in the status yet."""
    return _is_true(migration, RUNNING)


def has_succeeded(migration: StorageVersionMigration) -> bool:
    """Tell whether all objects were stored again."""
    return _is_true(migration, SUCCEEDED)


def has_ended(migration: StorageVersionMigration) -> bool:
    """Tell whether a migration has succeeded or failed."""
    return has_succeeded(migration) or _is_true(migration, FAILED)


def next_of(
    migrations: Iterable[StorageVersionMigration],
) -> StorageVersionMigration | None:
    """Return the migration of one resource that begins now.

    It is the oldest one that has not ended. The result is `None` while one is running.
    """
    listed = list(migrations)
    if any(map(is_running, listed)):
        return None
    waiting = [each for each in listed if not has_ended(each)]
    return min(waiting, key=_age, default=None)


def running(migration: StorageVersionMigration, now: str) -> StorageVersionMigration:
    """Return a migration that has begun."""
    message = "The migration is running"
    return _with(migration, RUNNING, "MigrationRunning", message, now)


def at_version(
    migration: StorageVersionMigration, version: str
) -> StorageVersionMigration:
    """Return a migration of the objects up to a version."""
    status = replace(migration.status, resource_version=version)
    return replace(migration, status=status)


def succeeded(migration: StorageVersionMigration, now: str) -> StorageVersionMigration:
    """Return a migration that has succeeded."""
    reason = "StorageVersionMigrationSucceeded"
    return _with(migration, SUCCEEDED, reason, "", now)


def failed(
    migration: StorageVersionMigration, why: str, now: str
) -> StorageVersionMigration:
    """Return a migration that has failed."""
    return _with(migration, FAILED, "StorageVersionMigrationFailed", why, now)


def completed(migration: StorageVersionMigration, now: str) -> StorageVersionMigration:
    """Return a migration that has ended, and does not run any more."""
    reason, message = "MigrationCompleted", "Migration completed"
    generation = migration.metadata.generation
    condition = Condition(RUNNING, "False", generation, now, reason, message)
    return _with_condition(migration, condition)


def _with(
    migration: StorageVersionMigration, name: str, reason: str, message: str, now: str
) -> StorageVersionMigration:
    condition = Condition(
        type=name,
        status="True",
        last_transition_time=now,
        reason=reason,
        message=message,
    )
    return _with_condition(migration, condition)


def _with_condition(
    migration: StorageVersionMigration, condition: Condition
) -> StorageVersionMigration:
    conditions = set_condition(migration.status.conditions, condition)
    return replace(migration, status=replace(migration.status, conditions=conditions))


def _is_true(migration: StorageVersionMigration, name: str) -> bool:
    found = find_condition(migration.status.conditions, name)
    return found is not None and found.status == "True"


def _age(migration: StorageVersionMigration) -> tuple[str, str]:
    metadata = migration.metadata
    return metadata.creation_timestamp or "", metadata.name
