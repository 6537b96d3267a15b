"""The writes of slices: sends them, recognizes and counts them.

Upstream: finalize and deleteEndpointSlice, endpointslice_tracker.go, metrics.go.
"""

from collections.abc import Callable, Iterable
from typing import Final

from msgspec import Struct
from prometheus_client import CollectorRegistry, Gauge

from controller_manager.api import meta
from controller_manager.api.discovery.v1 import (
    ENDPOINT_SLICES,
    MANAGED_BY,
    EndpointSlice,
)
from controller_manager.client.rest import errors
from controller_manager.client.rest.client import Client
from controller_manager.informers.store import Lister
from controller_manager.observability.exposition import PlainCounter

from .slices import BY_SERVICE, SliceActions, with_trigger_time

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

    def wrote(self, stored: meta.KubeObject) -> None:
        """Store the version of a slice that the API server returned."""
        metadata = stored.metadata
        version = meta.resource_version_number(metadata.resource_version)
        if metadata.uid not in self._written:
            self._make_room()
        self._written[metadata.uid] = (meta.key_of(stored), version)

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
        cached = self._cached.by_key(meta.key_of(existing))
        if cached is not None and cached.metadata.uid == uid:
            self._deleted.add(uid)

    def kept(self, existing: EndpointSlice) -> None:
        """Stop counting a slice as deleted: its deletion has failed."""
        self._deleted.discard(existing.metadata.uid)

    def is_own_write(self, seen: EndpointSlice) -> bool:
        """Tell whether this controller wrote this version of a slice or a later one."""
        metadata = seen.metadata
        _, written = self._written.get(metadata.uid, ("", -1))
        return meta.resource_version_number(metadata.resource_version) <= written

    def is_deleted(self, cached: EndpointSlice) -> bool:
        """Tell whether this controller has deleted a slice that is still cached."""
        return cached.metadata.uid in self._deleted

    def remaining(self, key: str, manager: str) -> list[EndpointSlice]:
        """Return the cached slices of a service by their manager.

        Those that are being deleted, or that this controller has deleted, are left out.
        """
        return [
            each
            for each in self._cached.by_index(BY_SERVICE, key)
            if meta.labels_of(each).get(MANAGED_BY) == manager
            and not meta.is_deleting(each)
            and not self.is_deleted(each)
        ]

    def gone(self, last: EndpointSlice) -> bool:
        """Drop a slice that left the cache; tell whether this controller deleted it."""
        uid = last.metadata.uid
        self._written.pop(uid, None)
        was_own = uid in self._deleted
        self._deleted.discard(uid)
        return was_own


class SliceWriteError(Exception):
    """A slice was not written; the message names it, and `cause` is the failure."""

    def __init__(self, message: str, cause: Exception) -> None:
        super().__init__(f"{message}: {cause}")
        self.cause = cause


class SliceWriter:
    """Creates, updates and deletes slices, and records each write in the tracker.

    `written` is called after each write, with ``create``, ``update`` or ``delete``.
    """

    def __init__(
        self,
        client: Client,
        tracker: SliceTracker,
        written: Callable[[str], None],
    ) -> None:
        self._client = client
        self._tracker = tracker
        self._written = written

    async def write(
        self, about: str, changes: SliceActions, trigger_time: str, *, may_create: bool
    ) -> None:
        """Create slices, then update, then delete, so that no endpoint is missing.

        `about` names the owner, for messages. Without `may_create` nothing
        is created: an owner that is being deleted gets no new slices, which the garbage
        collector would have to delete. In a namespace that is being deleted, nothing
        more is written.

        Raises SliceWriteError for the first write that fails. An update carries the
        version of the slice that it is made from, a deletion its uid.
        """
        for new in changes.create if may_create else ():
            if not await self._create(about, with_trigger_time(new, trigger_time)):
                return
        for existing in changes.update:
            await self._update(about, with_trigger_time(existing, trigger_time))
        for existing in changes.delete:
            await self.delete(about, existing)

    async def _create(self, about: str, new: EndpointSlice) -> bool:
        """Create a slice; return False if its namespace is being deleted."""
        try:
            stored = await self._client.create_for_metadata(ENDPOINT_SLICES, new)
        except errors.RequestError as error:
            if errors.is_namespace_terminating(error):
                return False
            msg = f"failed to create EndpointSlice for {about}"
            raise SliceWriteError(msg, error) from error
        self._tracker.wrote(stored)
        self._written("create")
        return True

    async def _update(self, about: str, existing: EndpointSlice) -> None:
        try:
            stored = await self._client.update_for_metadata(ENDPOINT_SLICES, existing)
        except errors.RequestError as error:
            msg = f"failed to update {existing.metadata.name} EndpointSlice for {about}"
            raise SliceWriteError(msg, error) from error
        self._tracker.wrote(stored)
        self._written("update")

    async def delete(self, about: str, existing: EndpointSlice) -> None:
        """Delete a slice, unless it is gone already.

        Raises SliceWriteError if that fails.
        """
        name = existing.metadata.name
        # The watch event may come before the response.
        self._tracker.deleted(existing)
        try:
            await self._client.delete_exactly(ENDPOINT_SLICES, existing)
        except errors.RequestError as error:
            # A conflict does not mean that it is gone: another slice may have the name
            # now, but a webhook may return a conflict, too.
            if isinstance(error, errors.NotFound) and errors.is_about(error, name):
                return
            self._tracker.kept(existing)
            msg = f"failed to delete {name} EndpointSlice for {about}"
            raise SliceWriteError(msg, error) from error
        self._written("delete")


class SliceUsage(Struct, frozen=True):
    """The number of endpoints with the same ports, and the number of their slices."""

    endpoints: int
    slices: int


class SliceTotals(Struct, frozen=True):
    """Numbers of endpoints and of slices.

    `desired_slices` is the smallest number of slices that the endpoints need.
    """

    endpoints: int = 0
    slices: int = 0
    desired_slices: int = 0

    @classmethod
    def of(
        cls, usage: Iterable[SliceUsage], limit: int, least: int = 0
    ) -> "SliceTotals":
        """Return the totals of several sets of ports.

        `limit` is the largest number of endpoints of a slice, and `least` the smallest
        number of slices: a service without endpoints has a placeholder.
        """
        endpoints = slices = needed = 0
        for each in usage:
            endpoints += each.endpoints
            slices += each.slices
            needed += -(-each.endpoints // limit)
        return cls(endpoints, slices, max(least, needed))

    def __add__(self, other: "SliceTotals") -> "SliceTotals":
        """Return the sums."""
        return SliceTotals(
            self.endpoints + other.endpoints,
            self.slices + other.slices,
            self.desired_slices + other.desired_slices,
        )


_NONE: Final = SliceTotals()


class SliceMetrics:
    """Counts the writes of slices, and shows the totals of all owners of slices."""

    def __init__(self, registry: CollectorRegistry, prefix: str) -> None:
        """Register the collectors; all their names begin with the prefix."""

        def gauge(name: str, text: str) -> Gauge:
            return Gauge(f"{prefix}_{name}", text, registry=registry)

        self._endpoints = gauge("endpoints_desired", "Number of endpoints desired")
        self._slices = gauge("num_endpoint_slices", "Number of EndpointSlices")
        self._desired_slices = gauge(
            "desired_endpoint_slices",
            "Number of EndpointSlices that would exist with perfect endpoint "
            "allocation",
        )
        self._changes = PlainCounter(
            f"{prefix}_changes",
            "Number of EndpointSlice changes",
            ["operation"],
            registry=registry,
        )
        for operation in ("create", "update", "delete"):
            self._changes.labels(operation)
        self._totals: dict[str, SliceTotals] = {}

    def wrote(self, operation: str) -> None:
        """Count a write of a slice: ``create``, ``update`` or ``delete``."""
        self._changes.labels(operation).inc()

    def show(self, key: str, totals: SliceTotals) -> None:
        """Show the totals of one owner of slices, in place of its former ones.

        The gauges change by the difference, so that the cost does not depend on the
        number of owners.
        """
        former = self._totals.pop(key, _NONE)
        if totals != _NONE:
            self._totals[key] = totals
        self._endpoints.inc(totals.endpoints - former.endpoints)
        self._slices.inc(totals.slices - former.slices)
        self._desired_slices.inc(totals.desired_slices - former.desired_slices)

    def forget(self, key: str) -> None:
        """Show no totals of an owner of slices that is gone."""
        self.show(key, _NONE)
