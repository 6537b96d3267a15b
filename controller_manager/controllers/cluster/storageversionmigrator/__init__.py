"""storage-version-migrator-controller: has all objects of a resource stored again."""

from typing import Final

from controller_manager.api.apiextensions.v1 import CUSTOM_RESOURCE_DEFINITIONS
from controller_manager.api.storagemigration.v1beta1 import STORAGE_VERSION_MIGRATIONS
from controller_manager.options.gates import Gate
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.permissions import allow, allow_everywhere

STORAGE_VERSION_MIGRATOR: Final = Gate("StorageVersionMigrator", default=False)
"""API servers serve StorageVersionMigrations."""

CONTROLLER = Descriptor(
    name="storage-version-migrator-controller",
    aliases=("svm",),
    load=".controller:MigrationReconciler",
    requires=(STORAGE_VERSION_MIGRATIONS,),
    requires_gates=(STORAGE_VERSION_MIGRATOR,),
    permissions=(
        allow_everywhere("create", "list", "patch"),
        allow(CUSTOM_RESOURCE_DEFINITIONS, "get"),
        allow(CUSTOM_RESOURCE_DEFINITIONS, "patch", subresource="status"),
        allow(STORAGE_VERSION_MIGRATIONS, "update", subresource="status"),
    ),
    # It writes all objects of a resource, one after the other.
    qps_factor=20,
    burst_factor=100,
)
