"""Recognizes the changes of slices that the controller has made itself.

Upstream's tracker compares generations to learn whether a cache is older than the last
write (endpointslice_tracker.go). Here the worker does not sync a key before the caches
show its writes. Two cases remain: a deletion has no version to wait for, and the
controller's own writes come back as changes that need no sync.
"""

from typing import Final

from controller_manager.api.discovery.v1 import EndpointSlice
from controller_manager.api.meta import KubeObject, key_of, resource_version_number
from controller_manager.informers.lister import Lister

_FIRST_SWEEP: Final = 64
"""The number of slices above which slices that are not cached are dropped."""


class SliceTracker:
    """The last versions written, and the deletions, of slices that are cached."""

    def __init__(self, cached: Lister[EndpointSlice]) -> None:
        self._cached = cached
        self._written: dict[str, tuple[str, int]] = {}
        """The key and the version of each slice, by its uid."""

        self._next_sweep = _FIRST_SWEEP
        self._deleted: set[str] = set()

    def __len__(self) -> int:
        """Return the number of slices that are remembered."""
        return len(self._written) + len(self._deleted)

    def wrote(self, stored: KubeObject) -> None:
        """Store the version of a slice that the API server returned."""
        metadata = stored.metadata
        version = resource_version_number(metadata.resource_version)
        if metadata.uid not in self._written:
            self._make_room()
        self._written[metadata.uid] = (key_of(stored), version)

    def _make_room(self) -> None:
        """Drop slices that are not cached, each time their number has doubled.

        The cache may show the deletion of a slice before the answer to its write comes.
        """
        if len(self._written) < self._next_sweep:
            return
        for uid, (key, _) in list(self._written.items()):
            cached = self._cached.by_key(key)
            if cached is None or cached.metadata.uid != uid:
                del self._written[uid]
        self._next_sweep = max(_FIRST_SWEEP, 2 * len(self._written))

    def deleted(self, existing: EndpointSlice) -> None:
        """Count a slice as deleted while the cache still shows it."""
        uid = existing.metadata.uid
        cached = self._cached.by_key(key_of(existing))
        if cached is not None and cached.metadata.uid == uid:
            self._deleted.add(uid)

    def kept(self, existing: EndpointSlice) -> None:
        """Stop counting a slice as deleted: its deletion has failed."""
        self._deleted.discard(existing.metadata.uid)

    def is_own_write(self, seen: EndpointSlice) -> bool:
        """Tell whether this controller wrote this version of a slice or a later one."""
        metadata = seen.metadata
        _, written = self._written.get(metadata.uid, ("", -1))
        return resource_version_number(metadata.resource_version) <= written

    def is_deleted(self, cached: EndpointSlice) -> bool:
        """Tell whether this controller has deleted a slice that is still cached."""
        return cached.metadata.uid in self._deleted

    def gone(self, last: EndpointSlice) -> bool:
        """Drop a slice that left the cache; tell whether this controller deleted it."""
        uid = last.metadata.uid
        self._written.pop(uid, None)
        was_own = uid in self._deleted
        self._deleted.discard(uid)
        return was_own
