"""The admission plugins that concern objects of all kinds."""

from typing import ClassVar

from controller_manager.clock import Clock
from controller_manager.devcluster.kinds.core.namespace import admit_to_namespace
from controller_manager.devcluster.kinds.core.quota_admission import QuotaAdmission
from controller_manager.devcluster.server.admission import Operation, Plugin, Write
from controller_manager.devcluster.server.storage import Storage


class NamespaceLifecycle(Plugin):
    """Refuses new objects in namespaces that are missing or being deleted."""

    name: ClassVar = "NamespaceLifecycle"
    covers_own_writes: ClassVar = True
    mutates: ClassVar = frozenset((Operation.CREATE,))

    def __init__(self, storage: Storage) -> None:
        """Take the storage, which has the namespaces."""
        self._storage = storage

    def mutate(self, write: Write) -> None:
        """Raise Refusal if a namespace accepts no new object."""
        if write.kind.namespaced and not write.subresource and write.kind.is_stored:
            admit_to_namespace(
                self._storage, write.kind, write.namespace, write.shown_name
            )


class ResourceQuotaPlugin(Plugin):
    """Refuses what exceeds a quota, and charges quotas for the rest."""

    name: ClassVar = "ResourceQuota"
    covers_own_writes: ClassVar = True

    def __init__(self, storage: Storage, clock: Clock) -> None:
        """Take the storage, which has the quotas, and the clock."""
        self._quotas = QuotaAdmission(storage, clock)

    def charge(self, write: Write) -> None:
        """Charge quotas for an object; see `QuotaAdmission.charge`."""
        if write.obj is not None:
            self._quotas.charge(
                write.kind,
                write.obj,
                write.old,
                write.subresource,
                dry_run=write.is_dry_run,
            )
