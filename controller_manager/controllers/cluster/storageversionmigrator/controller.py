"""Takes migrations from one step to the next (storageversionmigrator)."""

import asyncio
from collections.abc import Iterable
from typing import Final

from controller_manager.api.meta import key_of
from controller_manager.api.storagemigration.v1beta1 import (
    STORAGE_VERSION_MIGRATIONS,
    StorageVersionMigration,
)
from controller_manager.api.times import format_time, parse_time
from controller_manager.client.discovery import ServedResource
from controller_manager.informers.indexes import Index
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import DONE, Outcome, SyncError
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.watches import For, Maps

from . import conditions, custom_resource_definitions, migration_runner

_WAIT_FOR_RESOURCE: Final = 60.0
"""The seconds for which the controller waits for a resource that is not served."""

_MAX_AGE: Final = 10.0
"""The largest age of a discovery, in seconds."""

_NOT_SERVED: Final = "resource does not exist in discovery"
_NOT_SERVED_ANY_MORE: Final = "unable to obtain GVR from discovery"


def _resources(migration: StorageVersionMigration) -> Iterable[str]:
    return (conditions.resource_of(migration),)


def _is_same_resource(
    old: StorageVersionMigration, new: StorageVersionMigration
) -> bool:
    return old.spec == new.spec


BY_RESOURCE: Final = Index("migrated resource", _resources, _is_same_resource)


class MigrationReconciler(Reconciler[StorageVersionMigration]):
    """Runs one migration of a resource at a time, the oldest first.

    Each step of a migration ends with a write of its status, which causes the next.
    """

    def _waiting(self, migration: StorageVersionMigration) -> Iterable[str]:
        """Return the migrations of the same resource that have not begun."""
        for each in self._others(migration):
            if not conditions.is_running(each) and not conditions.has_ended(each):
                yield key_of(each)

    watches = (
        For(STORAGE_VERSION_MIGRATIONS),
        Maps(STORAGE_VERSION_MIGRATIONS, _waiting, on=("update", "delete")),
    )
    workers = 5

    def __init__(self, context: ControllerContext) -> None:
        """Take the context; index the migrations by resource."""
        self._by_resource = context.lister(STORAGE_VERSION_MIGRATIONS, BY_RESOURCE)
        self._starts = asyncio.Lock()
        super().__init__(context)

    async def reconcile(self, migration: StorageVersionMigration) -> Outcome:
        """Take the next step of a migration."""
        if not conditions.is_running(migration):
            await self._start(migration)
        elif conditions.has_ended(migration):
            await self._complete(migration)
        else:
            await self._run(migration)
        return DONE

    def _others(
        self, migration: StorageVersionMigration
    ) -> Iterable[StorageVersionMigration]:
        """Return the cached migrations of the same resource, this one included."""
        resource = conditions.resource_of(migration)
        return self._by_resource.by_index(BY_RESOURCE, resource)

    async def _start(self, migration: StorageVersionMigration) -> None:
        """Begin a migration if it is the next one of its resource."""
        if conditions.next_of(self._others(migration)) != migration:
            return
        async with self._starts:
            # The cache may not show the migration that has begun last.
            listed = [
                each
                async for page in self.client.list_all(STORAGE_VERSION_MIGRATIONS)
                for each in page.items
                if conditions.resource_of(each) == conditions.resource_of(migration)
            ]
            chosen = conditions.next_of(listed)
            if chosen is None or chosen.metadata.uid != migration.metadata.uid:
                return
            now = self._now()
            await custom_resource_definitions.note_start(self.client, chosen, now)
            await self._write(conditions.running(chosen, now))

    async def _run(self, migration: StorageVersionMigration) -> None:
        """Find the version up to which objects are rewritten, or rewrite them."""
        try:
            resource = await self._served(migration)
            if not migration.status.resource_version:
                version = await migration_runner.newest_version(self.client, resource)
                await self._write(conditions.at_version(migration, version))
                return
            if not await self._store_again(migration, resource):
                return
        except migration_runner.MigrationError as error:
            await self._fail(migration, str(error))
            return
        await self._write(conditions.succeeded(migration, self._now()))

    async def _fail(self, migration: StorageVersionMigration, why: str) -> None:
        if migration.status.resource_version:
            why = f"migration encountered unhandled error: {why}"
        self.logger.v(2).info(
            "The migration has failed",
            storageVersionMigration=migration.metadata.name,
            reason=why,
        )
        await self._write(conditions.failed(migration, why, self._now()))

    async def _served(self, migration: StorageVersionMigration) -> ServedResource:
        """Return the resource of a migration; raises SyncError to wait for it."""
        wanted = migration.spec.resource
        discovery = await self.context.resources.discovery(_MAX_AGE)
        found = migration_runner.served(discovery, wanted)
        if found is not None:
            return found
        if migration_runner.is_unread(discovery, wanted) or self._is_young(migration):
            raise SyncError(_NOT_SERVED)
        if migration.status.resource_version:
            raise migration_runner.MigrationError(_NOT_SERVED_ANY_MORE)
        raise migration_runner.MigrationError(_NOT_SERVED)

    def _is_young(self, migration: StorageVersionMigration) -> bool:
        created = parse_time(migration.metadata.creation_timestamp or "")
        age = self.context.server_clock.now() - created
        return age.total_seconds() < _WAIT_FOR_RESOURCE

    async def _store_again(
        self, migration: StorageVersionMigration, served: ServedResource
    ) -> bool:
        """Have all objects stored again; return False if the migration is deleted."""
        resource = served.metadata_resource()
        version = migration.status.resource_version
        changed: set[migration_runner.Stored] = set()
        for each in await migration_runner.stored_until(self.client, resource, version):
            if not self._is_wanted(migration):
                return False
            manager = self.context.name
            if not await migration_runner.store_again(
                self.client, resource, each, manager
            ):
                changed.add(each)
        if changed:
            left = await migration_runner.stored_until(self.client, resource, version)
            if same := changed.intersection(left):
                msg = f"{len(same)} objects have a conflict, but have not changed"
                raise SyncError(msg)
        return True

    def _is_wanted(self, migration: StorageVersionMigration) -> bool:
        found = self.objects.by_key(key_of(migration))
        return found is not None and found.metadata.uid == migration.metadata.uid

    async def _complete(self, migration: StorageVersionMigration) -> None:
        """Set the condition Running of an ended migration to False."""
        now = self._now()
        await custom_resource_definitions.note_end(self.client, migration, now)
        await self._write(conditions.completed(migration, now))

    async def _write(self, migration: StorageVersionMigration) -> None:
        await self.client.update_for_metadata(
            STORAGE_VERSION_MIGRATIONS, migration, "status"
        )

    def _now(self) -> str:
        return format_time(self.clock.now())
