"""Read your own writes.

A controller writes an object during the sync of a key. The store records the
resource version that the API server returns. The key is not synced again before the
caches have reached that version. Upstream 1.36 does so for replica sets, daemon
sets, stateful sets and jobs (the StaleControllerConsistency gates); here it holds
for every controller. It avoids conflicts that come from a stale cache.
"""

from collections.abc import Iterator
from typing import Any, Final

from msgspec import Struct, field

from controller_manager.api.meta import (
    AnyResource,
    KubeObject,
    key_of,
    resource_version_number,
)
from controller_manager.client.rest.limits import SYNC_KEY
from controller_manager.informers.factory import ControllerInformers
from controller_manager.informers.informer import SharedInformer

from .outcome import Requeue

STALE_RECHECK: Final = 1.0
"""Seconds until a key that waits for a stale cache is synced again."""


_FIRST_SWEEP: Final = 64
"""Keys from which on versions that the caches show are dropped."""


def requeue_for(stale: SharedInformer[Any]) -> Requeue:
    """Return the outcome of a sync that must wait for a cache."""
    return Requeue(
        STALE_RECHECK,
        f"the cache of {stale.resource.plural} is older than the last write",
    )


class _Written(Struct):
    """The versions that were written to the objects of one informer."""

    version: tuple[int, int] = (0, 0)
    """The epoch and the highest version."""

    objects: set[str] = field(default_factory=set)
    """Their keys: a cache may be as new, and lack an object that breaks an index."""


class ConsistencyStore:
    """The newest version written for each key, by the informer that will show it.

    Upstream: consistencyStore of pkg/controller/util/consistency. A write to a
    resource that the controller does not watch is not recorded.
    """

    def __init__(self, informers: ControllerInformers) -> None:
        self._informers = informers
        self.records_writes = False
        """True if `record_write` records versions; a waiting `Reconciler` sets it."""
        self._written: dict[str, dict[SharedInformer[Any], _Written]] = {}
        self._next_sweep = _FIRST_SWEEP

    def __len__(self) -> int:
        """Return the number of keys that have a recorded version."""
        return len(self._written)

    def record_write(self, resource: AnyResource, obj: KubeObject) -> None:
        """Record an object as the API server has stored it, for the key under sync.

        The controller's client calls this after each of its writes.
        """
        if self.records_writes and (key := SYNC_KEY.get()):
            self.record(key, resource, obj)

    def record(self, key: str, resource: AnyResource, obj: KubeObject) -> None:
        """Have `key` wait until the cache shows `obj` or a newer version of it."""
        version = resource_version_number(obj.metadata.resource_version)
        for informer in self._showing(resource, obj):
            if key not in self._written:
                self._make_room()
            versions = self._written.setdefault(key, {})
            written = versions.setdefault(informer, _Written())
            written.version = max(written.version, (informer.epoch, version))
            written.objects.add(key_of(obj))

    def _make_room(self) -> None:
        """Drop the versions that the caches show, whenever there are twice as many.

        Most keys are synced after their write, which drops their versions. Others
        have no change to come: the namespace of a new service account, for instance.
        """
        if len(self._written) < self._next_sweep:
            return
        for key in list(self._written):
            self.stale_cache(key)
        self._next_sweep = max(_FIRST_SWEEP, 2 * len(self._written))

    def _showing(
        self, resource: AnyResource, obj: KubeObject
    ) -> Iterator[SharedInformer[Any]]:
        for informer in self._informers.all():
            watched = informer.resource
            if (
                watched.plural == resource.plural
                and watched.group == resource.group
                and watched.cluster == resource.cluster
                and watched.may_select(obj)
            ):
                yield informer

    def stale_cache(self, key: str) -> SharedInformer[Any] | None:
        """Return an informer that is older than the last write for `key`."""
        versions = self._written.get(key)
        if versions is None:
            return None
        for informer, written in versions.items():
            seen = resource_version_number(informer.resource_version)
            is_old = (informer.epoch, seen) < written.version
            if is_old or informer.lacks_any(written.objects):
                return informer
        del self._written[key]  # the caches show all writes
        return None

    def forget(self, key: str) -> None:
        """Drop the versions of a key whose object is gone."""
        self._written.pop(key, None)
