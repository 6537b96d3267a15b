"""storagemigration.k8s.io/v1beta1: requests to rewrite all objects of a resource."""

from controller_manager.api.meta import APIStruct, CompleteObject, Condition, Resource


class GroupResource(APIStruct, frozen=True):
    """A resource in any version: ``secrets``, or ``deployments`` of the group apps."""

    group: str = ""
    resource: str = ""


class StorageVersionMigrationSpec(APIStruct, frozen=True):
    """The resource whose objects are to be rewritten; it never changes."""

    resource: GroupResource = GroupResource()


class StorageVersionMigrationStatus(APIStruct, frozen=True):
    """The progress of a migration.

    Objects that are newer than `resource_version` need not be rewritten.
    """

    conditions: tuple[Condition, ...] | None = None
    resource_version: str = ""


class StorageVersionMigration(CompleteObject, frozen=True):
    """A request to rewrite all objects of a resource in the current version."""

    spec: StorageVersionMigrationSpec = StorageVersionMigrationSpec()
    status: StorageVersionMigrationStatus = StorageVersionMigrationStatus()


STORAGE_VERSION_MIGRATIONS: Resource[StorageVersionMigration] = Resource(
    "storagemigration.k8s.io",
    "v1beta1",
    "storageversionmigrations",
    "StorageVersionMigration",
    StorageVersionMigration,
    namespaced=False,
)
