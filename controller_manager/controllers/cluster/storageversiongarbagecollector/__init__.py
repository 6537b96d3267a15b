"""storageversion-garbage-collector-controller: removes API servers that are gone."""

from typing import Final

from controller_manager.api.apiserverinternal.v1alpha1 import STORAGE_VERSIONS
from controller_manager.api.coordination.v1 import SYSTEM_LEASES
from controller_manager.options.gates import Gate
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.permissions import allow

STORAGE_VERSION_API: Final = Gate("StorageVersionAPI", "ALPHA", default=False)
"""API servers publish the versions in which they store objects."""

API_SERVER_IDENTITY: Final = Gate("APIServerIdentity")
"""Each API server holds a lease under its name."""


CONTROLLER = Descriptor(
    name="storageversion-garbage-collector-controller",
    aliases=("storage-version-gc",),
    load=".controller:StorageVersionReconciler",
    requires=(STORAGE_VERSIONS, SYSTEM_LEASES),
    requires_gates=(STORAGE_VERSION_API, API_SERVER_IDENTITY),
    permissions=(
        allow(SYSTEM_LEASES, "get", "list", "watch"),
        allow(STORAGE_VERSIONS, "delete", "get", "list", "patch", "update", "watch"),
        allow(STORAGE_VERSIONS, "get", "patch", "update", subresource="status"),
    ),
    service_account="storage-version-garbage-collector",
)
