"""Removes API servers without a lease from storage versions (gc_controller.go).

The status of a storage version without some API servers (updater.go).
"""

from collections.abc import Container, Iterable, Sequence
from contextlib import suppress
from typing import Final

from msgspec.structs import replace

from controller_manager.api import meta
from controller_manager.api.apiserverinternal.v1alpha1 import (
    STORAGE_VERSIONS,
    ServerStorageVersion,
    StorageVersion,
    StorageVersionStatus,
)
from controller_manager.api.coordination.v1 import API_SERVER, IDENTITY, SYSTEM_LEASES
from controller_manager.api.scalars import format_time
from controller_manager.client.rest.errors import InvalidName, NotFound, is_about
from controller_manager.informers.store import Index
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import DONE, Outcome
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.watches import For, Maps

_EQUAL = "AllEncodingVersionsEqual"


def servers_of(version: StorageVersion) -> Iterable[str]:
    """Return the names of the API servers in a storage version, each once."""
    listed = version.status.storage_versions or ()
    return dict.fromkeys(each.api_server_id for each in listed)


def status_without(
    version: StorageVersion, gone: Container[str], now: str
) -> StorageVersionStatus | None:
    """Return the status without the API servers in `gone`, or None if none is left.

    A condition tells whether the other API servers use the same encoding version. `now`
    is the time of the transition.
    """
    status = version.status
    left = tuple(
        each for each in status.storage_versions or () if each.api_server_id not in gone
    )
    if not left:
        return None
    common = _common_version(left)
    condition = _condition(common, version.metadata.generation, now)
    conditions = meta.set_condition(status.conditions, condition)
    before = status.common_encoding_version
    if before is not None and common is not None and before != common:
        # The API servers agreed on a version before, and agree on another one now.
        conditions = tuple(
            condition if each.type == _EQUAL else each for each in conditions
        )
    return StorageVersionStatus(
        storage_versions=left, common_encoding_version=common, conditions=conditions
    )


def _common_version(listed: Sequence[ServerStorageVersion]) -> str | None:
    versions = {each.encoding_version for each in listed}
    return versions.pop() if len(versions) == 1 else None


def _condition(common: str | None, generation: int, now: str) -> meta.Condition:
    is_set, reason = "True", "CommonEncodingVersionSet"
    message = "Common encoding version set"
    if common is None:
        is_set, reason = "False", "CommonEncodingVersionUnset"
        message = "Common encoding version unset"
    return meta.Condition(_EQUAL, is_set, generation, now, reason, message)


_NAMESPACE: Final = "kube-system"


BY_SERVER: Final = Index(
    "server",
    servers_of,
    lambda old, new: old.status.storage_versions == new.status.storage_versions,
)
"""Storage versions by the names of the API servers in them."""


def _is_identity(lease: meta.PartialObject) -> bool:
    return meta.labels_of(lease).get(IDENTITY) == API_SERVER


class StorageVersionReconciler(Reconciler[StorageVersion]):
    """Keeps in storage versions only the API servers that hold a lease.

    The cache of leases only suggests API servers that may be gone. The controller
    removes one only after the API server has answered that its lease is not found.
    """

    def _versions_of_lease(self, lease: meta.PartialObject) -> Iterable[str]:
        if not _is_identity(lease):
            return ()
        return map(
            meta.key_of, self._by_server.by_index(BY_SERVER, lease.metadata.name)
        )

    watches = (
        For(STORAGE_VERSIONS),
        Maps(SYSTEM_LEASES, _versions_of_lease, on=("delete",)),
    )
    queue_name = "storage_version_garbage_collector_storageversions"

    def __init__(self, context: ControllerContext) -> None:
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
        # An API server may have added itself meanwhile.
        with suppress(NotFound):
            await self.client.delete_exactly(
                STORAGE_VERSIONS, version, same_version=True
            )
        return DONE

    def _is_seen(self, server: str) -> bool:
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
