"""The mirroring controller: copies hand-made Endpoints into slices.

Upstream: pkg/controller/endpointslicemirroring/endpointslicemirroring_controller.go and
finalize of its reconciler.go.
"""

from collections.abc import Awaitable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, Histogram

from controller_manager.api import meta
from controller_manager.api.core import services
from controller_manager.api.discovery.v1 import (
    ENDPOINT_SLICES,
    MANAGED_BY,
    EndpointSlice,
)
from controller_manager.client.events.recorder import WARNING
from controller_manager.client.rest.errors import gravest
from controller_manager.control.endpoints import slice_writes
from controller_manager.control.endpoints.slices import (
    BY_SERVICE,
    service_key_of,
)
from controller_manager.control.expectations import live
from controller_manager.informers.dispatch import Handler
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import DONE, Outcome, SyncError
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.watches import For, Handles
from controller_manager.workqueue.ratelimiters import Backoff, ExponentialBackoff

from . import MirroringOptions
from .slices import MANAGER, Plan, plan

SKIP: Final = "endpointslice.kubernetes.io/skip-mirror"
"""The label of Endpoints that are not mirrored if its value is "true"."""


def may_be_mirrored(endpoints: services.Endpoints) -> bool:
    """Tell whether no label or annotation excludes Endpoints (shouldMirror)."""
    is_skipped = meta.labels_of(endpoints).get(SKIP) == "true"
    return not is_skipped and services.LEADER_ELECTION not in meta.annotations_of(
        endpoints.metadata
    )


def is_for(
    service: services.Service | None, endpoints: services.Endpoints | None
) -> bool:
    """Tell whether Endpoints must be mirrored: they belong to this service."""
    if endpoints is None or service is None:
        return False
    return may_be_mirrored(endpoints) and not service.spec.selector


def is_mirrored(existing: EndpointSlice) -> bool:
    """Tell whether this controller manages a slice (managedByController)."""
    return meta.labels_of(existing).get(MANAGED_BY) == MANAGER


class MirroringReconciler(Reconciler[services.Endpoints]):
    """Keeps slices with the addresses of Endpoints whose service selects no pods."""

    queue_name = "endpoint_slice_mirroring"
    watches = (
        For(services.ENDPOINTS),
        Handles(
            services.SERVICES,
            lambda self: Handler(
                on_add=self._service_changed,
                on_update=self._service_updated,
                on_delete=self._service_changed,
            ),
        ),
        Handles(
            ENDPOINT_SLICES,
            lambda self: Handler(
                on_add=self._slice_stored,
                on_update=self._slice_updated,
                on_delete=self._slice_gone,
            ),
        ),
    )

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        options = context.config.of(MirroringOptions)
        self.workers = options.concurrent_syncs
        self._limit = options.max_endpoints_per_subset
        self._batch_period = options.batch_period
        self._metrics = context.metrics.of(MirroringMetrics)
        self._services = context.lister(services.SERVICES)
        self._slices = context.lister(ENDPOINT_SLICES, BY_SERVICE)
        self._tracker = slice_writes.SliceTracker(self._slices)
        self._writer = slice_writes.SliceWriter(
            self.client, self._tracker, self._metrics.wrote
        )

    def backoff(self) -> Backoff:
        """Return the delays between retries: 1 s, 2 s, 4 s … 100 s, as upstream's."""
        return ExponentialBackoff(1.0, 100.0)

    # Handlers.

    def _service_changed(self, service: services.Service) -> None:
        if not service.spec.selector:
            self.queue.add(meta.key_of(service))

    def _service_updated(self, old: services.Service, new: services.Service) -> None:
        """Enqueue the Endpoints of a service that gets or loses its selector."""
        if bool(old.spec.selector) != bool(new.spec.selector):
            self.queue.add(meta.key_of(new))

    def _slice_stored(self, new: EndpointSlice) -> None:
        if is_mirrored(new) and not self._tracker.is_own_write(new):
            self._enqueue(new)

    def _slice_updated(self, old: EndpointSlice, new: EndpointSlice) -> None:
        former = is_mirrored(old), service_key_of(old)
        if former == (is_mirrored(new), service_key_of(new)):
            self._slice_stored(new)
            return
        for each in (old, new):
            if is_mirrored(each):
                self._enqueue(each)

    def _slice_gone(self, last: EndpointSlice) -> None:
        if not self._tracker.gone(last) and is_mirrored(last):
            self._enqueue(last)

    def _enqueue(self, existing: EndpointSlice) -> None:
        key = service_key_of(existing)
        if key and self._batch_period:
            self.queue.add_after(key, self._batch_period)
        elif key:
            self.queue.add(key)

    # The sync.

    async def reconcile(self, endpoints: services.Endpoints) -> Outcome:
        """Mirror Endpoints, or delete their slices if they must not be mirrored."""
        key = meta.key_of(endpoints)
        if is_for(self._services.by_key(key), endpoints):
            return await self._timed(self._mirror(endpoints))
        return await self._timed(self._clean_up(key))

    async def reconcile_absent(self, key: str) -> Outcome:
        """Delete the slices of Endpoints that are gone."""
        return await self._timed(self._clean_up(key))

    async def _timed(self, sync: Awaitable[Outcome]) -> Outcome:
        begin = self.clock.monotonic()
        try:
            return await sync
        finally:
            self._metrics.duration.observe(self.clock.monotonic() - begin)

    def enqueue_all(self) -> Iterator[None]:
        """Add all Endpoints, and those of slices whose Endpoints are gone."""
        yield from super().enqueue_all()
        for each in self._slices.all():
            if is_mirrored(each) and (key := service_key_of(each)):
                self.queue.add(key)
            yield

    async def _mirror(self, endpoints: services.Endpoints) -> Outcome:
        key = meta.key_of(endpoints)
        found = plan(endpoints, self._tracker.remaining(key, MANAGER), self._limit)
        self._metrics.mirrored(key, found, self._limit)
        self._report_skipped(endpoints, found)
        about, may_create = f"Endpoints {key}", not meta.is_deleting(endpoints)
        try:
            await self._writer.write(about, found.changes, "", may_create=may_create)
        except slice_writes.SliceWriteError as error:
            raise SyncError(str(error)) from error
        return DONE

    async def _clean_up(self, key: str) -> Outcome:
        """Delete all mirrored slices of Endpoints; those that fail are tried again.

        Endpoints and service are read from the API server first. The cache of slices
        may be newer than theirs: it shows slices that the former leader has written. A
        change that their caches do not show yet comes as an event, which adds the key
        again.
        """
        slices = self._tracker.remaining(key, MANAGER)
        if slices and await self._is_to_be_mirrored(key):
            return DONE
        self._metrics.forget(key)
        failures = []
        for each in slices:
            try:
                await self._writer.delete(f"Endpoints {key}", each)
            except slice_writes.SliceWriteError as error:
                failures.append(error)
        if failures:
            msg = (
                f"error(s) deleting {len(failures)}/{len(slices)} EndpointSlices for "
                f"{key} Endpoints, including: {failures[0]}"
            )
            raise SyncError(msg) from gravest(failures)
        return DONE

    async def _is_to_be_mirrored(self, key: str) -> bool:
        """Tell whether Endpoints must be mirrored, by the objects of the API server."""
        place = meta.split_key(key)
        endpoints = await live(self.client, services.ENDPOINTS, *place)
        if endpoints is None:
            return False
        return is_for(await live(self.client, services.SERVICES, *place), endpoints)

    def _report_skipped(self, endpoints: services.Endpoints, found: Plan) -> None:
        event, about = self.recorder.event, (services.ENDPOINTS, endpoints, WARNING)
        invalid, skipped = len(found.desired.invalid), found.desired.skipped
        if invalid:
            message = f"Skipped {invalid} invalid IP addresses when mirroring to "
            event(*about, "InvalidIPAddress", f"{message}EndpointSlices")
        if skipped > invalid:
            message = (
                f"A max of {self._limit} addresses can be mirrored to EndpointSlices "
                f"per Endpoints subset. {skipped} addresses were skipped"
            )
            event(*about, "TooManyAddressesToMirror", message)


_PREFIX: Final = "endpoint_slice_mirroring_controller"
_COUNTS: Final = tuple(2.0 * 2**power for power in range(15))
_SECONDS: Final = tuple(0.001 * 2**power for power in range(15))


class MirroringMetrics(slice_writes.SliceMetrics):
    """The ``endpoint_slice_mirroring_controller_*`` metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        super().__init__(registry, _PREFIX)

        def histogram(name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
            return Histogram(
                f"{_PREFIX}_{name}", text, buckets=buckets, registry=registry
            )

        def of_endpoints(verb: str) -> Histogram:
            text = f"Number of endpoints {verb} on each Endpoints sync"
            return histogram(f"endpoints_{verb}_per_sync", text, _COUNTS)

        self._added = of_endpoints("added")
        self._updated = of_endpoints("updated")
        self._removed = of_endpoints("removed")
        self._skipped = histogram(
            "addresses_skipped_per_sync",
            "Number of addresses skipped on each Endpoints sync due to being invalid "
            "or exceeding MaxEndpointsPerSubset",
            _COUNTS,
        )
        text = "Duration of syncEndpoints() in seconds"
        self.duration = histogram("endpoints_sync_duration", text, _SECONDS)

    def mirrored(self, key: str, found: Plan, limit: int) -> None:
        """Observe a sync of the Endpoints of `key`; `limit` is that of a slice."""
        self._added.observe(found.totals.added)
        self._updated.observe(found.totals.updated)
        self._removed.observe(found.totals.removed)
        self._skipped.observe(found.desired.skipped)
        self.show(key, slice_writes.SliceTotals.of(found.usage, limit))
