"""Read your own writes.

A controller notes the resource version of everything it writes for a key, and
does not act for that key again before its caches have come that far. Upstream
1.36 does so for replica sets (StaleControllerConsistencyReplicaSet); here it
holds for every controller, and spares the conflicts of acting on a stale copy.
The gate switches it off for replica sets, as it does upstream.
"""

from typing import Any, Final

from controller_manager.api.meta import resource_version_number
from controller_manager.informers.informer import SharedInformer
from controller_manager.runtime.outcome import Requeue

STALE_RECHECK: Final = 1.0
"""Seconds after which a stale cache is looked at again without an event."""


def requeue_for(stale: SharedInformer[Any]) -> Requeue:
    """Return the outcome of a sync that must wait for a cache."""
    return Requeue(
        STALE_RECHECK,
        f"the cache of {stale.resource.plural} is older than the last write",
    )


class ConsistencyStore:
    """The newest version written for each key, by the informer that will show it."""

    def __init__(self) -> None:
        """Start with nothing written."""
        self._written: dict[str, dict[SharedInformer[Any], tuple[int, int]]] = {}

    def __len__(self) -> int:
        """Return for how many keys a version is remembered."""
        return len(self._written)

    def wrote(
        self, key: str, informer: SharedInformer[Any], resource_version: str
    ) -> None:
        """Note that a write on behalf of `key` is at this version."""
        versions = self._written.setdefault(key, {})
        written = (informer.epoch, resource_version_number(resource_version))
        versions[informer] = max(written, versions.get(informer, (0, 0)))

    def behind(self, key: str) -> SharedInformer[Any] | None:
        """Return an informer that is older than the last write for `key`."""
        versions = self._written.get(key)
        if versions is None:
            return None
        for informer, written in versions.items():
            seen = resource_version_number(informer.resource_version)
            if (informer.epoch, seen) < written:
                return informer
        del self._written[key]  # all seen: nothing to remember
        return None

    def forget(self, key: str) -> None:
        """Drop what is remembered of a key that is gone."""
        self._written.pop(key, None)
