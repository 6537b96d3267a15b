"""Takes migrations from one step to the next (storageversionmigrator).

Each object of the resource is stored again (migrationrunner.go). The definition of a
custom resource shows the migration.
"""

import asyncio
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any, Final

import msgspec
from msgspec import Struct

from controller_manager.api import meta
from controller_manager.api.apiextensions.v1 import (
    CUSTOM_RESOURCE_DEFINITIONS,
    CustomResourceDefinition,
)
from controller_manager.api.scalars import format_time, parse_time
from controller_manager.api.storagemigration.v1beta1 import (
    STORAGE_VERSION_MIGRATIONS,
    GroupResource,
    StorageVersionMigration,
)
from controller_manager.client.discovery.resources import Discovery, ServedResource
from controller_manager.client.rest import errors
from controller_manager.client.rest.client import ListOptions
from controller_manager.informers.store import Index
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import DONE, Outcome, SyncError
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.watches import For, Maps

from . import conditions

_WAIT_FOR_RESOURCE: Final = 60.0
"""The seconds for which the controller waits for a resource that is not served."""

_MAX_AGE: Final = 10.0
"""The largest age of a discovery, in seconds."""

_MIGRATING: Final = "StorageMigrating"
_MANAGER: Final = "migration-runner-controller"

_NOT_SERVED: Final = "resource does not exist in discovery"
_NOT_SERVED_ANY_MORE: Final = "unable to obtain GVR from discovery"
_UPDATED: Final = "and the stored versions have been updated"
_NOT_UPDATED: Final = (
    "but the stored versions have not been updated due to a generation mismatch"
)


_NEEDED: Final = ("update", "patch", "list")

_NOT_COMPARABLE: Final = "resource version is not well formed"

_TEMPORARY: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.TOO_MANY_REQUESTS)

BY_RESOURCE: Final = Index(
    "migrated resource",
    lambda each: (conditions.resource_of(each),),
    lambda old, new: old.spec == new.spec,
)


class MigrationError(Exception):
    """A migration that can never succeed; the text says why."""


class Stored(Struct, frozen=True):
    """An object that is stored again if it still has this version."""

    namespace: str
    name: str
    uid: str
    version: str


class MigrationReconciler(Reconciler[StorageVersionMigration]):
    """Runs one migration of a resource at a time, the oldest first.

    Each step of a migration ends with a write of its status, which causes the next.
    """

    def _waiting(self, migration: StorageVersionMigration) -> Iterable[str]:
        for each in self._others(migration):
            if not conditions.is_running(each) and not conditions.has_ended(each):
                yield meta.key_of(each)

    watches = (
        For(STORAGE_VERSION_MIGRATIONS),
        Maps(STORAGE_VERSION_MIGRATIONS, _waiting, on=("update", "delete")),
    )
    workers = 5

    def __init__(self, context: ControllerContext) -> None:
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
            await self._note_start(chosen, now)
            await self._write(conditions.running(chosen, now))

    async def _run(self, migration: StorageVersionMigration) -> None:
        try:
            resource = await self._served(migration)
            if not migration.status.resource_version:
                version = await self._newest_version(resource)
                await self._write(conditions.at_version(migration, version))
                return
            if not await self._store_again(migration, resource):
                return
        except MigrationError as error:
            await self._fail(migration, str(error))
            return
        await self._write(conditions.succeeded(migration, self._now()))

    async def _served(self, migration: StorageVersionMigration) -> ServedResource:
        """Return the resource of a migration; raises SyncError to wait for it."""
        wanted = migration.spec.resource
        discovery = await self.context.resources.discovery(_MAX_AGE)
        found = served(discovery, wanted)
        if found is not None:
            return found
        if is_unread(discovery, wanted) or self._is_young(migration):
            raise SyncError(_NOT_SERVED)
        if migration.status.resource_version:
            raise MigrationError(_NOT_SERVED_ANY_MORE)
        raise MigrationError(_NOT_SERVED)

    def _is_young(self, migration: StorageVersionMigration) -> bool:
        created = parse_time(migration.metadata.creation_timestamp or "")
        age = self.context.server_clock.now() - created
        return age.total_seconds() < _WAIT_FOR_RESOURCE

    async def _newest_version(self, resource: ServedResource) -> str:
        """Return the version of the newest object of a resource, or a later one.

        Raises MigrationError if versions of the resource cannot be compared.
        """
        options = ListOptions(limit=1)
        page = await self.client.list_page(resource.metadata_resource(), "", options)
        version = page.resource_version
        if not is_comparable(version):
            msg = (
                f"latest resourceVersion for {_name_of(resource)} is not valid: "
                f"{_NOT_COMPARABLE}: {version}"
            )
            raise MigrationError(msg)
        return version

    async def _store_again(
        self, migration: StorageVersionMigration, found: ServedResource
    ) -> bool:
        """Have all objects stored again; return False if the migration is deleted."""
        resource = found.metadata_resource()
        version = migration.status.resource_version
        changed: set[Stored] = set()
        for each in await self._stored_until(resource, version):
            if not self._is_wanted(migration):
                return False
            if not await self._store_object_again(resource, each):
                changed.add(each)
        if changed:
            left = await self._stored_until(resource, version)
            if same := changed.intersection(left):
                msg = f"{len(same)} objects have a conflict, but have not changed"
                raise SyncError(msg)
        return True

    async def _stored_until(
        self, resource: meta.Resource[meta.PartialObject], version: str
    ) -> list[Stored]:
        """Return the objects that were stored at `version` or before it.

        Raises MigrationError if the version of an object cannot be compared.
        """
        found: list[Stored] = []
        async for page in self.client.list_all(resource):
            found += [
                Stored(each.namespace, each.name, each.uid, each.resource_version)
                for each in (listed.metadata for listed in page.items)
                if not _is_newer(each.resource_version, version)
            ]
        return found

    async def _store_object_again(
        self, resource: meta.Resource[meta.PartialObject], obj: Stored
    ) -> bool:
        """Have an object stored again; does nothing for a deleted object.

        Return False if the API server answers that the object has changed: then another
        client has had it stored. Raises MigrationError for an error that will last.
        """
        metadata = meta.PartialMetadata(
            namespace=obj.namespace,
            name=obj.name,
            uid=obj.uid,
            resource_version=obj.version,
        )
        try:
            await self.client.rewrite(
                resource, meta.PartialObject(metadata=metadata), self.context.name
            )
        except errors.Conflict:
            return False
        except errors.APIError as error:
            is_gone = isinstance(error, errors.NotFound) and (
                errors.is_about(error, obj.name)
                or errors.is_about(error, obj.namespace)
            )
            is_server_error = error.code >= HTTPStatus.INTERNAL_SERVER_ERROR
            if is_server_error or error.code in _TEMPORARY:
                raise
            if not is_gone:
                raise MigrationError(str(error)) from error
        return True

    def _is_wanted(self, migration: StorageVersionMigration) -> bool:
        found = self.objects.by_key(meta.key_of(migration))
        return found is not None and found.metadata.uid == migration.metadata.uid

    async def _complete(self, migration: StorageVersionMigration) -> None:
        now = self._now()
        await self._note_end(migration, now)
        await self._write(conditions.completed(migration, now))

    async def _fail(self, migration: StorageVersionMigration, why: str) -> None:
        if migration.status.resource_version:
            why = f"migration encountered unhandled error: {why}"
        self.logger.v(2).info(
            "The migration has failed",
            storageVersionMigration=migration.metadata.name,
            reason=why,
        )
        await self._write(conditions.failed(migration, why, self._now()))

    # Definitions of custom resources.

    async def _note_start(self, migration: StorageVersionMigration, now: str) -> None:
        """Set the condition StorageMigrating of a custom resource to True."""
        definition = await self._definition(migration)
        if definition is None:
            return
        condition = meta.Condition(
            type=_MIGRATING,
            status="True",
            observed_generation=definition.metadata.generation,
            last_transition_time=now,
            reason="MigrationRunning",
            message=f"Migration {migration.metadata.name} is running",
        )
        await self._apply(definition, condition, definition.status.stored_versions)

    async def _note_end(self, migration: StorageVersionMigration, now: str) -> None:
        """Set the condition StorageMigrating to False, with the result."""
        definition = await self._definition(migration)
        if definition is None:
            return
        old = meta.find_condition(definition.status.conditions, _MIGRATING)
        if old is not None and old.status != "True":
            return  # the condition has the end already
        succeeded = conditions.has_succeeded(migration)
        generation = definition.metadata.generation
        is_same = old is not None and old.observed_generation == generation
        reason, message = "MigrationFailed", "The migration has failed"
        if succeeded:
            reason, message = "MigrationSucceeded", "The migration has succeeded "
            message += _UPDATED if is_same else _NOT_UPDATED
        condition = meta.Condition(
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
        await self._apply(definition, condition, stored)

    async def _definition(
        self, migration: StorageVersionMigration
    ) -> CustomResourceDefinition | None:
        if not migration.spec.resource.group:
            return None
        name = conditions.resource_of(migration)
        try:
            return await self.client.get(CUSTOM_RESOURCE_DEFINITIONS, "", name)
        except errors.InvalidName:
            return None
        except errors.NotFound as error:
            if not errors.is_about(error, name):
                raise
            return None

    async def _apply(
        self,
        definition: CustomResourceDefinition,
        condition: meta.Condition,
        stored: tuple[str, ...] | None,
    ) -> None:
        # Once this manager owns the stored versions, it would remove them by leaving
        # them out.
        status: dict[str, Any] = {"conditions": [msgspec.to_builtins(condition)]}
        if stored:
            status["storedVersions"] = stored
        known = definition.metadata
        metadata = {"name": known.name, "resourceVersion": known.resource_version}
        config = {"metadata": metadata, "status": status}
        await self.client.apply(CUSTOM_RESOURCE_DEFINITIONS, config, _MANAGER, "status")

    async def _write(self, migration: StorageVersionMigration) -> None:
        await self.client.update_for_metadata(
            STORAGE_VERSION_MIGRATIONS, migration, "status"
        )

    def _now(self) -> str:
        return format_time(self.clock.now())


def served(discovery: Discovery, wanted: GroupResource) -> ServedResource | None:
    """Return the preferred version of a resource, `None` if it is not served.

    Raises MigrationError if its objects cannot be migrated.
    """
    resource = (wanted.group, wanted.resource)
    for each in discovery.resources:
        if each.is_preferred and (each.group, each.plural) == resource:
            if each.verbs.issuperset(_NEEDED):
                return each
            msg = (
                f'resource "{_name_of(each)}" does not support discovery operations: '
                f"[{' '.join(_NEEDED)}]"
            )
            raise MigrationError(msg)
    return None


def is_unread(discovery: Discovery, wanted: GroupResource) -> bool:
    """Tell whether a part of a resource's group could not be discovered."""
    return any(each.rpartition("/")[0] == wanted.group for each in discovery.failures)


def _name_of(resource: ServedResource) -> str:
    """Return a resource as Go prints a GroupVersionResource."""
    return f"{resource.group}/{resource.version}, Resource={resource.plural}"


def is_comparable(version: str) -> bool:
    """Tell whether a version is a number (resourceversion.CompareResourceVersion)."""
    return version.isascii() and version.isdecimal() and not version.startswith("0")


def _is_newer(version: str, other: str) -> bool:
    if not is_comparable(version):
        msg = f"{_NOT_COMPARABLE}: {version}"
        raise MigrationError(msg)
    return int(version) > int(other)
