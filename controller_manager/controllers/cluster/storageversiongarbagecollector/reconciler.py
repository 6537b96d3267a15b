"""Removes API servers without a lease from storage versions (gc_controller.go)."""

from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from msgspec.structs import replace

from controller_manager.api.apiserverinternal.v1alpha1 import (
    STORAGE_VERSIONS,
    StorageVersion,
)
from controller_manager.api.coordination.v1 import API_SERVER, IDENTITY, SYSTEM_LEASES
from controller_manager.api.meta import PartialObject, key_of, labels_of
from controller_manager.api.times import format_time
from controller_manager.client.client import DeleteOptions
from controller_manager.client.errors import InvalidName, NotFound, is_about
from controller_manager.informers.indexes import Index
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import DONE, Outcome
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.watches import For, Maps

from .status import (
    servers_of,
    status_without,
)

_NAMESPACE: Final = "kube-system"


def _has_same_servers(old: StorageVersion, new: StorageVersion) -> bool:
    return old.status.storage_versions == new.status.storage_versions


BY_SERVER: Final = Index("server", servers_of, _has_same_servers)
"""Storage versions by the names of the API servers in them."""


def _is_identity(lease: PartialObject) -> bool:
    return labels_of(lease).get(IDENTITY) == API_SERVER


class StorageVersionReconciler(Reconciler[StorageVersion]):
    """Keeps in storage versions only the API servers that hold a lease.

    The cache of leases only suggests API servers that may be gone. The controller
    removes one only after the API server has answered that its lease is not found.
    """

    def _versions_of_lease(self, lease: PartialObject) -> Iterable[str]:
        """Return the storage versions that name the holder of a deleted lease."""
        if not _is_identity(lease):
            return ()
        return map(key_of, self._by_server.by_index(BY_SERVER, lease.metadata.name))

    watches = (
        For(STORAGE_VERSIONS),
        Maps(SYSTEM_LEASES, _versions_of_lease, on=("delete",)),
    )
    queue_name = "storage_version_garbage_collector_storageversions"

    def __init__(self, context: ControllerContext) -> None:
        """Take the context; index the storage versions by API server."""
        self._by_server = context.lister(STORAGE_VERSIONS, BY_SERVER)
        super().__init__(context)

    async def reconcile(self, version: StorageVersion) -> Outcome:
        """Remove API servers that are gone; delete a version without API servers."""
        unseen = [each for each in servers_of(version) if not self._is_seen(each)]
        gone = {each for each in unseen if not await self._holds_lease(each)}
        if not gone:
            return DONE
        now = format_time(self.clock.now())
        status = status_without(version, gone, now)
        self.logger.v(2).info(
            "Dropping API servers that are gone",
            storageVersion=version.metadata.name,
            servers=sorted(gone),
        )
        if status is not None:
            changed = replace(version, status=status)
            await self.client.update_for_metadata(STORAGE_VERSIONS, changed, "status")
            return DONE
        await self._delete(version)
        return DONE

    def _is_seen(self, server: str) -> bool:
        """Tell whether the cache shows the lease of an API server."""
        lease = self.lister(SYSTEM_LEASES).get(_NAMESPACE, server)
        return lease is not None and _is_identity(lease)

    async def _holds_lease(self, server: str) -> bool:
        """Ask the API server for a lease; raise any error other than "not found"."""
        if not server:
            return False
        try:
            lease = await self.client.get(SYSTEM_LEASES, _NAMESPACE, server)
        except InvalidName:
            return False
        except NotFound as error:
            if not is_about(error, server):
                raise
            return False
        return _is_identity(lease)

    async def _delete(self, version: StorageVersion) -> None:
        metadata = version.metadata
        # An API server may have added itself meanwhile.
        options = DeleteOptions(
            uid=metadata.uid, resource_version=metadata.resource_version
        )
        with suppress(NotFound):
            await self.client.delete(STORAGE_VERSIONS, "", metadata.name, options)
