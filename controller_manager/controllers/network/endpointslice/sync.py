"""One sync of one service: make endpoints, decide, set hints, write."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from controller_manager.api.core.services import SERVICES, Service
from controller_manager.api.core.v1 import Node, Pod
from controller_manager.api.discovery.v1 import EndpointSlice
from controller_manager.api.meta import is_deleting, key_of
from controller_manager.client.errors import gravest
from controller_manager.client.events import EventRecorder
from controller_manager.control.endpoints.slices.actions import SliceActions, recycled
from controller_manager.control.endpoints.slices.apply import (
    SliceWriteError,
    SliceWriter,
)
from controller_manager.informers.lister import Lister
from controller_manager.runtime.outcome import SyncError

from .decide import AddressTypePlan, AddressTypeView, SliceMetadata, decide, only_of
from .desired import DesiredEndpoints, SkippedPods
from .hints import without_hints
from .metrics import EndpointSliceMetrics
from .topology_cache import HintEvent, TopologyHints
from .tracker import SettledSlices, TrackedService
from .traffic_distribution import distribution_of, is_by_topology, with_traffic_hints


class SyncFailed(Exception):
    """Some slices are not right; `cause` is the error that the sync raises."""

    def __init__(self, messages: Iterable[str], cause: Exception) -> None:
        found = list(dict.fromkeys(messages))
        super().__init__(found[0] if len(found) == 1 else f"[{', '.join(found)}]")
        self.cause = cause


class PodsSkipped(SyncFailed):
    """Pods have no endpoints because their nodes are not cached; all else is right."""


class SyncTools(Struct, frozen=True):
    """The caches, the writer and the settings that the syncs of all services share."""

    pods: Lister[Pod]
    nodes: Lister[Node]
    writer: SliceWriter
    topology: TopologyHints
    metrics: EndpointSliceMetrics
    recorder: EventRecorder
    limit: int


class ServiceSync:
    """The sync of one service, one address type after the other."""

    def __init__(
        self, tools: SyncTools, service: Service, known: TrackedService
    ) -> None:
        self._tools = tools
        self._service = service
        self._key = key_of(service)
        self._about = f"Service {self._key}"
        self._known = known
        self._metadata = SliceMetadata.of(service)
        self._skipped = SkippedPods()
        self._failures: list[SliceWriteError] = []
        self._desired = DesiredEndpoints(
            service, tools.pods, tools.nodes, self._skipped
        )

    async def run(self, slices: Sequence[EndpointSlice], time: str) -> None:
        """Update the slices of the service, which are all its slices, to its pods.

        `time` is written to the slices as the time of the change. Raises SyncFailed if
        a write fails, or if a pod is left out because its node is not cached; all other
        changes are written nevertheless.
        """
        changed = (*self._known.changed, *self._known.skipped)
        self._known.changed = {}
        plans = [
            await self._sync_type(address_type, settled_slices, slices, changed, time)
            for address_type, settled_slices in self._known.settled_slices.items()
        ]
        await self._delete_others(slices)
        tools = self._tools
        tools.metrics.uses(self._key, (each.usage for each in plans), tools.limit)
        tools.metrics.distributes(self._key, distribution_of(self._service))
        self._known.skipped = tuple(self._skipped.messages)
        self._check()

    def _check(self) -> None:
        """Raise SyncFailed if a write has failed or a pod was left out."""
        messages = [*self._skipped.messages.values(), *map(str, self._failures)]
        if failure := gravest(each.cause for each in self._failures):
            raise SyncFailed(messages, failure)
        if messages:
            raise PodsSkipped(messages, SyncError(messages[0]))

    async def _sync_type(
        self,
        address_type: str,
        settled_slices: SettledSlices,
        slices: Sequence[EndpointSlice],
        changed: Iterable[str],
        time: str,
    ) -> AddressTypePlan:
        """Write the slices of one address type; store the error if a write fails."""
        cached = only_of(slices, address_type)
        settled, names = settled_slices.start_sync(cached, changed)
        pods = self._desired.pods(names)
        backends = self._desired.backends(pods, address_type)
        known = frozenset(each.metadata.name for each in settled)
        others = tuple(each for each in cached if each.metadata.name not in known)
        view = AddressTypeView(address_type, others, settled, tuple(backends))
        planned = decide(view, self._metadata, self._tools.limit)
        hinted, event = self._with_hints(address_type, planned.changes, known)
        changes = recycled(hinted, self._metadata.owner)
        await self._write(changes, time)
        settled_slices.finish_sync(changes)
        self._report(planned, changes, event)
        return planned

    def _with_hints(
        self, address_type: str, changes: SliceActions, checked: frozenset[str]
    ) -> tuple[SliceActions, HintEvent | None]:
        """Return changes with the hints that the service asks for."""
        if is_by_topology(self._service):
            return self._tools.topology.add(self._key, address_type, changes)
        event = self._tools.topology.remove(self._key, address_type)
        if distribution := distribution_of(self._service):
            return with_traffic_hints(changes, distribution, checked), event
        return without_hints(changes, checked), event

    async def _write(self, changes: SliceActions, time: str) -> None:
        may_create = not is_deleting(self._service)
        try:
            await self._tools.writer.write(
                self._about, changes, time, may_create=may_create
            )
        except SliceWriteError as error:
            self._failures.append(error)

    def _report(
        self, planned: AddressTypePlan, changes: SliceActions, event: HintEvent | None
    ) -> None:
        """Update the metrics; record an event about hints."""
        metrics, service = self._tools.metrics, self._service
        metrics.planned(planned.added, planned.removed)
        metrics.finished(
            changes.count,
            distribution_of(service),
            by_topology=is_by_topology(service),
        )
        if event is not None:
            self._tools.recorder.event(
                SERVICES, service, event.type, event.reason, event.message
            )

    async def _delete_others(self, slices: Sequence[EndpointSlice]) -> None:
        """Delete the slices of address types that the service does not have."""
        for each in slices:
            if each.address_type in self._known.settled_slices:
                continue
            self._tools.topology.drop(self._key, each.address_type)
            try:
                await self._tools.writer.delete(self._about, each)
            except SliceWriteError as error:
                self._failures.append(error)
