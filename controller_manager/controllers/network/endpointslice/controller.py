"""The endpoint slice controller: writes the slices of services that select pods.

Upstream: pkg/controller/endpointslice/endpointslice_controller.go and reconcile of
k8s.io/endpointslice/reconciler.go.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct, field
from prometheus_client import CollectorRegistry, Gauge, Histogram

from controller_manager.api.core.services import SERVICES, Service
from controller_manager.api.core.v1 import NODES, PODS, Node, Pod
from controller_manager.api.discovery.v1 import ENDPOINT_SLICES, EndpointSlice
from controller_manager.api.meta import AnyResource, is_deleting, key_of
from controller_manager.client.events.recorder import WARNING
from controller_manager.client.rest.errors import gravest
from controller_manager.control.endpoints import pods, slice_writes
from controller_manager.control.endpoints.slices import (
    BY_SERVICE,
    SliceActions,
    recycled,
    service_key_of,
)
from controller_manager.control.endpoints.trigger_time import TriggerTimes
from controller_manager.control.pod_indexes import PODS_BY_NODE
from controller_manager.informers.changes import DependsOn
from controller_manager.informers.dispatch import Handler
from controller_manager.observability.exposition import PlainCounter
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.controller import Controller, WorkerGroup
from controller_manager.runtime.outcome import DONE, Outcome, SyncError
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.watches import For, Handles
from controller_manager.workqueue.ratelimiters import Backoff, ExponentialBackoff

from . import EndpointSliceOptions, hints, slices
from .topology_cache import HintEvent, TopologyHints, is_ready_node
from .tracker import ServiceTracker, SettledSlices, TrackedService

_SLICE_DELAY: Final = 1.0
"""The shortest delay in seconds after another client has changed a slice."""


def init_endpoint_slice_controller(context: ControllerContext) -> Controller:
    """Wire the controller to its informers (NewController)."""
    reconciler = EndpointSliceReconciler(context)
    hint_checks = context.workers(reconciler.capacity, reconciler.check_hints, 1)
    return WorkerGroup(reconciler.make_workers(), hint_checks)


class _Sync(Struct):
    """One sync of a service, and what it could not do.

    `checked` are the names of the pods to check. `time` goes to the slices as the time
    of the change. `skipped` has a message for each pod that has no endpoint as its node
    is not cached.
    """

    service: Service
    checked: tuple[str, ...]
    time: str
    ports: slices.ServicePorts
    skipped: dict[str, str] = field(default_factory=dict)
    failures: list[slice_writes.SliceWriteError] = field(default_factory=list)


class EndpointSliceReconciler(Reconciler[Service]):
    """Keeps the slices of each service equal to its pods."""

    watches = (
        For(SERVICES),
        # Only the presence and the zone of a node matter, and for hints its readiness.
        # So a heartbeat costs one comparison.
        Handles(
            NODES,
            lambda self: Handler(
                *(self._node_added, self._node_updated, self._node_deleted),
                depends_on=DependsOn("metadata.labels", "status.conditions[Ready]"),
            ),
        ),
        Handles(
            PODS,
            lambda self: pods.pod_handler(
                self._services_of_pods, self._pod_changed, lambda: self._leads
            ),
        ),
        Handles(
            ENDPOINT_SLICES,
            lambda self: Handler(
                self._slice_added, self._slice_updated, self._slice_deleted
            ),
        ),
    )
    queue_name = "endpoint_slice"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        options = context.config.of(EndpointSliceOptions)
        self.workers = options.concurrent_syncs
        self._batch_period = options.updates_batch_period
        self._limit = options.max_endpoints_per_slice
        self._services_of_pods = pods.ServicesOfPods(
            context.lister(SERVICES, *pods.SERVICE_INDEXES)
        )
        self._pods = context.lister(PODS, *pods.POD_INDEXES)
        self._tracked = ServiceTracker(context.clock)
        self._times = TriggerTimes()
        self._metrics = context.metrics.of(EndpointSliceMetrics)
        self._tracker = slice_writes.SliceTracker(
            context.lister(ENDPOINT_SLICES, BY_SERVICE)
        )
        self._writer = slice_writes.SliceWriter(
            self.client, self._tracker, self._metrics.wrote
        )
        self._leads = False
        self.capacity = context.queue("endpoint_slice_topology")
        self._nodes = context.lister(NODES)
        self._pods_by_node = context.lister(PODS, PODS_BY_NODE)
        self._topology = TopologyHints(self._nodes.all)

    def backoff(self) -> Backoff:
        """Return delays that begin with one second: a sync may write many slices."""
        return ExponentialBackoff(1.0)

    def starting(self) -> None:
        """Accept events: this process begins to lead, and all services are synced."""
        self._leads = True

    # Handlers.

    def _pod_changed(self, key: str, pod: Pod) -> None:
        self._tracked.pod_changed(key, pod.metadata.name)
        self.queue.add_after(key, self._batch_period)

    def _node_added(self, node: Node) -> None:
        self._capacity_changed()
        self._sync_pods_of(node)

    def _node_updated(self, old: Node, new: Node) -> None:
        has_other_zone = slices.zone_of(old) != slices.zone_of(new)
        if has_other_zone or is_ready_node(old) != is_ready_node(new):
            self._capacity_changed()
        if has_other_zone:
            self._sync_pods_of(new)

    def _node_deleted(self, node: Node) -> None:
        """Let the next sync check the pods; none is requested: they will be deleted."""
        self._capacity_changed()
        for key, pod in self._services_on(node):
            self._tracked.pod_changed(key, pod.metadata.name)

    def _sync_pods_of(self, node: Node) -> None:
        for key, pod in self._services_on(node):
            self._pod_changed(key, pod)

    def _services_on(self, node: Node) -> list[tuple[str, Pod]]:
        if not self._leads:
            return []
        return [
            (key, pod)
            for pod in self._pods_by_node.by_index(PODS_BY_NODE, node.metadata.name)
            for key in self._services_of_pods.keys(pod)
        ]

    def _capacity_changed(self) -> None:
        self._topology.nodes_changed()
        if self._leads and len(self._topology):
            self.capacity.add("capacity")

    def _slice_added(self, new: EndpointSlice) -> None:
        if slices.is_managed(new) and not self._tracker.is_own_write(new):
            self._slices_changed(new)

    def _slice_updated(self, old: EndpointSlice, new: EndpointSlice) -> None:
        if not slices.is_managed(old) and not slices.is_managed(new):
            return
        if not self._tracker.is_own_write(new) and _differ(old, new):
            self._slices_changed(old, new)

    def _slice_deleted(self, last: EndpointSlice) -> None:
        if not self._tracker.gone(last) and slices.is_managed(last):
            self._slices_changed(last)

    def _slices_changed(self, *changed: EndpointSlice) -> None:
        for key in dict.fromkeys(map(service_key_of, changed)):
            if key and self._leads:
                self.queue.add_after(key, max(_SLICE_DELAY, self._batch_period))

    # The state of services.

    def deleted(self, obj: Service) -> None:
        """Drop the state of a service; a new service of its name begins without it."""
        self.forget(key_of(obj))

    def forget(self, key: str) -> None:
        """Drop the state of a deleted service; its slices are garbage-collected."""
        self._tracked.forget(key)
        self._times.forget(key)
        self._topology.forget(key)
        self._metrics.forget(key)

    def stale(self, resource: AnyResource) -> None:  # noqa: ARG002 - of any cache
        """Count a sync that waits until the caches show the last writes."""
        self._metrics.synced("stale")

    # The sync.

    async def reconcile(self, service: Service) -> Outcome:
        """Write the slices that differ from the pods of the service (syncService).

        A write that fails, and a pod whose node is not cached, make the sync fail; all
        other changes are written nevertheless.
        """
        key = key_of(service)
        if not pods.selects_pods(service):
            self._tracked.forget(key)
            self._metrics.synced("success")
            return DONE
        try:
            sync = await self._sync_slices(service)
        except BaseException:
            self._tracked.forget(key)
            raise
        failure = gravest(each.cause for each in sync.failures)
        if failure is not None:
            self._tracked.forget(key)
        messages = (*sync.skipped.values(), *map(str, sync.failures))
        if messages:
            self._report_failure(service, messages)
            raise failure or SyncError(messages[0])
        self._metrics.synced("success")
        return DONE

    def _report_failure(self, service: Service, messages: Sequence[str]) -> None:
        found = list(dict.fromkeys(messages))
        problem = found[0] if len(found) == 1 else f"[{', '.join(found)}]"
        self.recorder.event(
            SERVICES,
            service,
            WARNING,
            "FailedToUpdateEndpointSlices",
            f"Error updating Endpoint Slices for Service {key_of(service)}: {problem}",
        )
        self._metrics.synced("error")

    async def _sync_slices(self, service: Service) -> _Sync:
        """Update the slices of a service, one address type after the other."""
        key = key_of(service)
        tracked, time = self._observe(service)
        checked = (*tracked.changed, *tracked.skipped)
        sync = _Sync(service, checked, time, slices.ServicePorts(service))
        present = self._tracker.remaining(key, slices.MANAGER)
        tracked.changed = {}
        plans = [
            await self._sync_address_type(sync, address_type, settled, present)
            for address_type, settled in tracked.settled_slices.items()
        ]
        await self._delete_others(sync, tracked, present)
        self._metrics.uses(key, (each.usage for each in plans), self._limit)
        self._metrics.distributes(key, hints.distribution_of(service))
        tracked.skipped = tuple(sync.skipped)
        return sync

    def _observe(self, service: Service) -> tuple[TrackedService, str]:
        """Return the pods of a service that have changed, and the time of the change.

        All its pods count as changed if the service itself has changed.
        """
        key = key_of(service)
        tracked = self._tracked.of(key, service)
        if tracked is None:
            tracked = self._tracked.start(key, service, pods.address_types_of(service))
            selected = pods.pods_of(self._pods, service)
            names = (each.metadata.name for each in selected)
            tracked.changed.update(dict.fromkeys(names))
            return tracked, self._times.observe(service, selected)
        namespace = service.metadata.namespace
        found = {name: self._pods.get(namespace, name) for name in tracked.changed}
        present = {
            name: pod
            for name, pod in found.items()
            if pod is not None and pods.is_selected(pod, service)
        }
        gone = found.keys() - present.keys()
        return tracked, self._times.observe_some(service, present.values(), gone)

    async def _sync_address_type(
        self,
        sync: _Sync,
        address_type: str,
        settled_slices: SettledSlices,
        present: Sequence[EndpointSlice],
    ) -> slices.Plan:
        """Write the slices of one address type (reconcileByAddressType)."""
        service, template = sync.service, slices.template_of(sync.service, address_type)
        cached = [each for each in present if each.address_type == address_type]
        settled, names = settled_slices.start_sync(cached, sync.checked)
        backends = self._backends(sync, names, address_type)
        known = frozenset(each.metadata.name for each in settled)
        others = [each for each in cached if each.metadata.name not in known]
        planned = slices.plan(template, others, settled, backends, self._limit)
        hinted, event = self._with_hints(service, address_type, planned.changes, known)
        changes = recycled(hinted, template.owner)
        about, may_create = f"Service {key_of(service)}", not is_deleting(service)
        try:
            await self._writer.write(about, changes, sync.time, may_create=may_create)
        except slice_writes.SliceWriteError as error:
            sync.failures.append(error)
        settled_slices.finish_sync(changes)
        self._metrics.finished(service, planned, changes.count)
        if event is not None:
            self.recorder.event(SERVICES, service, *event)
        return planned

    def _backends(
        self, sync: _Sync, names: Iterable[str], address_type: str
    ) -> list[slices.Backend]:
        service, found = sync.service, []
        for name in names:
            pod = self._pods.get(service.metadata.namespace, name)
            if pod is None or not pods.is_selected(pod, service):
                continue
            if not pods.belongs_in_endpoints(pod, include_terminating=True):
                continue
            node = self._nodes.get("", pod.spec.node_name)
            if node is None and not service.spec.publish_not_ready_addresses:
                sync.skipped[name] = (
                    f"skipping Pod {name} for Service {key_of(service)}: "
                    f"Node {pod.spec.node_name} Not Found"
                )
                continue
            endpoint = slices.endpoint_of(service, pod, node, address_type)
            if endpoint is not None:
                found.append(slices.Backend(sync.ports.of(pod), endpoint))
        return found

    def _with_hints(
        self,
        service: Service,
        address_type: str,
        changes: SliceActions,
        checked: frozenset[str],
    ) -> tuple[SliceActions, HintEvent | None]:
        key = key_of(service)
        if hints.is_by_topology(service):
            return self._topology.add(key, address_type, changes)
        event = self._topology.remove(key, address_type)
        if distribution := hints.distribution_of(service):
            return hints.with_traffic_hints(changes, distribution, checked), event
        return hints.without_hints(changes, checked), event

    async def _delete_others(
        self, sync: _Sync, tracked: TrackedService, present: Sequence[EndpointSlice]
    ) -> None:
        key = key_of(sync.service)
        for each in present:
            if each.address_type in tracked.settled_slices:
                continue
            self._topology.drop(key, each.address_type)
            try:
                await self._writer.delete(f"Service {key}", each)
            except slice_writes.SliceWriteError as error:
                sync.failures.append(error)

    async def check_hints(self, _: str) -> Outcome:
        """Sync the services whose hints do not fit the nodes any more."""
        for key in self._topology.overloaded():
            self.queue.add(key)
        return DONE


def _differ(old: EndpointSlice, new: EndpointSlice) -> bool:
    """Tell whether more than annotations and owners has changed."""
    return (
        old.metadata.labels != new.metadata.labels
        or old.endpoints != new.endpoints
        or old.ports != new.ports
        or is_deleting(old) != is_deleting(new)
    )


_PREFIX: Final = "endpoint_slice_controller"
_ENDPOINTS: Final = tuple(2**power for power in range(1, 16))
_CHANGED: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class EndpointSliceMetrics(slice_writes.SliceMetrics):
    """The ``endpoint_slice_controller_*`` metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        super().__init__(registry, _PREFIX)

        def histogram(verb: str) -> Histogram:
            return Histogram(
                f"{_PREFIX}_endpoints_{verb}_per_sync",
                f"Number of endpoints {verb} on each Service sync",
                buckets=_ENDPOINTS,
                registry=registry,
            )

        self._added = histogram("added")
        self._removed = histogram("removed")
        self._changed = Histogram(
            f"{_PREFIX}_endpointslices_changed_per_sync",
            "Number of EndpointSlices changed on each Service sync",
            ["topology", "traffic_distribution"],
            buckets=_CHANGED,
            registry=registry,
        )
        self._syncs = PlainCounter(
            f"{_PREFIX}_syncs",
            "Number of EndpointSlice syncs",
            ["result"],
            registry=registry,
        )
        for result in ("success", "stale", "error"):
            self._syncs.labels(result)
        self._distributions = Gauge(
            f"{_PREFIX}_services_count_by_traffic_distribution",
            "Number of Services using some specific trafficDistribution",
            ["traffic_distribution"],
            registry=registry,
        )
        self._distribution_of: dict[str, str] = {}

    def synced(self, result: str) -> None:
        """Count a sync: success, stale or error."""
        self._syncs.labels(result).inc()

    def finished(self, service: Service, planned: slices.Plan, count: int) -> None:
        """Observe the endpoints of one address type, and `count` written slices."""
        self._added.observe(planned.added)
        self._removed.observe(planned.removed)
        topology = "Auto" if hints.is_by_topology(service) else "Disabled"
        self._changed.labels(topology, hints.distribution_of(service)).observe(count)

    def uses(
        self, key: str, by_type: Iterable[Sequence[slice_writes.SliceUsage]], limit: int
    ) -> None:
        """Show the endpoints and slices of a service, of all its address types.

        Upstream shows those of one type only. A type without endpoints has a
        placeholder, so it needs one slice.
        """
        totals = (
            slice_writes.SliceTotals.of(usage, limit, least=1) for usage in by_type
        )
        self.show(key, sum(totals, start=slice_writes.SliceTotals()))

    def distributes(self, key: str, distribution: str) -> None:
        """Show the traffic distribution of a service, empty for none."""
        if distribution and distribution not in hints.DISTRIBUTIONS:
            distribution = "ImplementationSpecific"
        if former := self._distribution_of.pop(key, ""):
            self._distributions.labels(former).dec()
        if distribution:
            self._distribution_of[key] = distribution
            self._distributions.labels(distribution).inc()

    def forget(self, key: str) -> None:
        """Drop the totals and the traffic distribution of a service that is gone."""
        self.distributes(key, "")
        super().forget(key)
