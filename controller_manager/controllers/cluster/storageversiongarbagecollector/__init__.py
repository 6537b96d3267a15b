"""storageversion-garbage-collector-controller: removes API servers that are gone."""

from controller_manager.api.apiserverinternal.v1alpha1 import STORAGE_VERSIONS
from controller_manager.api.coordination.v1 import SYSTEM_LEASES
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.permissions import allow

from . import options

CONTROLLER = Descriptor(
    name="storageversion-garbage-collector-controller",
    aliases=("storage-version-gc",),
    load=".reconciler:StorageVersionReconciler",
    requires=(STORAGE_VERSIONS, SYSTEM_LEASES),
    requires_gates=(options.STORAGE_VERSION_API, options.API_SERVER_IDENTITY),
    permissions=(
        allow(SYSTEM_LEASES, "get", "list", "watch"),
        allow(STORAGE_VERSIONS, "delete", "get", "list", "patch", "update", "watch"),
        allow(STORAGE_VERSIONS, "get", "patch", "update", subresource="status"),
    ),
    service_account="storage-version-garbage-collector",
)
