"""The admission plugins that concern objects of all kinds."""

from typing import Any

from controller_manager.clock import Clock
from controller_manager.devcluster.kinds.core.namespace import admit_to_namespace
from controller_manager.devcluster.kinds.core.quota_admission import QuotaAdmission
from controller_manager.devcluster.server.kind import Kind
from controller_manager.devcluster.server.storage import Storage

JSON = dict[str, Any]


class ClusterAdmission:
    """NamespaceLifecycle and ResourceQuota."""

    def __init__(self, storage: Storage, clock: Clock) -> None:
        """Take the storage, which has namespaces and quotas, and the clock."""
        self._storage = storage
        self._quotas = QuotaAdmission(storage, clock)

    def admit(self, kind: Kind, namespace: str, name: str) -> None:
        """Raise Refusal if a namespace accepts no new object with that name."""
        admit_to_namespace(self._storage, kind, namespace, name)

    def charge(
        self,
        kind: Kind,
        new: JSON,
        old: JSON | None,
        subresource: str,
        *,
        dry_run: bool,
    ) -> None:
        """Charge quotas for an object; see `QuotaAdmission.charge`."""
        self._quotas.charge(kind, new, old, subresource, dry_run=dry_run)
