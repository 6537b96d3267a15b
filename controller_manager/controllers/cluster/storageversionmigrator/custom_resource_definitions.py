"""The condition of definitions during a migration (migrationrunner.go)."""

from typing import Any, Final

import msgspec

from controller_manager.api.apiextensions.v1 import (
    CUSTOM_RESOURCE_DEFINITIONS,
    CustomResourceDefinition,
)
from controller_manager.api.conditions import Condition, find_condition
from controller_manager.api.storagemigration.v1beta1 import StorageVersionMigration
from controller_manager.client.client import Client
from controller_manager.client.errors import InvalidName, NotFound, is_about

from . import conditions

_MIGRATING: Final = "StorageMigrating"
_MANAGER: Final = "migration-runner-controller"


async def read(
    client: Client, migration: StorageVersionMigration
) -> CustomResourceDefinition | None:
    """Return the definition of the resource of a migration, if it is a custom one."""
    if not migration.spec.resource.group:
        return None
    name = conditions.resource_of(migration)
    try:
        return await client.get(CUSTOM_RESOURCE_DEFINITIONS, "", name)
    except InvalidName:
        return None
    except NotFound as error:
        if not is_about(error, name):
            raise
        return None


async def note_start(
    client: Client, migration: StorageVersionMigration, now: str
) -> None:
    """Set the condition StorageMigrating of the definition to True."""
    definition = await read(client, migration)
    if definition is None:
        return
    condition = Condition(
        type=_MIGRATING,
        status="True",
        observed_generation=definition.metadata.generation,
        last_transition_time=now,
        reason="MigrationRunning",
        message=f"Migration {migration.metadata.name} is running",
    )
    await _apply(client, definition, condition, definition.status.stored_versions)


async def note_end(
    client: Client, migration: StorageVersionMigration, now: str
) -> None:
    """Set the condition StorageMigrating to False, with the result of the migration."""
    definition = await read(client, migration)
    if definition is None:
        return
    old = find_condition(definition.status.conditions, _MIGRATING)
    if old is not None and old.status != "True":
        return  # the condition has the end already
    succeeded = conditions.has_succeeded(migration)
    generation = definition.metadata.generation
    is_same = old is not None and old.observed_generation == generation
    reason, message = _end(succeeded=succeeded, is_same=is_same)
    condition = Condition(
        type=_MIGRATING,
        status="False",
        observed_generation=definition.metadata.generation,
        last_transition_time=now,
        reason=reason,
        message=message,
    )
    stored = definition.status.stored_versions
    if succeeded and is_same:
        stored = tuple(
            each.name for each in definition.spec.versions or () if each.storage
        )
    await _apply(client, definition, condition, stored)


def _end(*, succeeded: bool, is_same: bool) -> tuple[str, str]:
    """Return the reason and the message of the end of a migration."""
    if not succeeded:
        return "MigrationFailed", "The migration has failed"
    result = (
        "and the stored versions have been updated"
        if is_same
        else "but the stored versions have not been updated due to a generation "
        "mismatch"
    )
    return "MigrationSucceeded", f"The migration has succeeded {result}"


async def _apply(
    client: Client,
    definition: CustomResourceDefinition,
    condition: Condition,
    stored: tuple[str, ...] | None,
) -> None:
    # Once this manager owns the stored versions, it would remove them by leaving them
    # out.
    status: dict[str, Any] = {"conditions": [msgspec.to_builtins(condition)]}
    if stored:
        status["storedVersions"] = stored
    metadata = definition.metadata
    config = {
        "metadata": {"resourceVersion": metadata.resource_version},
        "status": status,
    }
    await client.apply(
        CUSTOM_RESOURCE_DEFINITIONS, metadata.name, config, _MANAGER, "status"
    )
