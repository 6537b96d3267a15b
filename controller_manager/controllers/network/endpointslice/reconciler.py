"""Watches, caches and the sync of the endpoint slice controller.

Upstream: pkg/controller/endpointslice of v1.36 (endpointslice_controller.go). `decide`
and the modules of hints decide, `control.endpoints.slices.apply` writes.

The handlers find the services that a changed node or a changed slice concerns.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from controller_manager.api.core.services import SERVICES, Service
from controller_manager.api.core.v1 import NODES, PODS, Node, Pod
from controller_manager.api.discovery.v1 import (
    ENDPOINT_SLICES,
    MANAGED_BY,
    EndpointSlice,
)
from controller_manager.api.meta import is_deleting, key_of, labels_of
from controller_manager.api.resource import AnyResource
from controller_manager.client.events import WARNING
from controller_manager.control.endpoints.addresses import address_types_of
from controller_manager.control.endpoints.selectors import (
    POD_INDEXES,
    SERVICE_INDEXES,
    ServicesOfPods,
    is_selected,
    pod_handler,
    pods_of,
    selects_pods,
)
from controller_manager.control.endpoints.slices.apply import SliceWriter
from controller_manager.control.endpoints.slices.indexes import (
    BY_SERVICE,
    service_key_of,
)
from controller_manager.control.endpoints.slices.tracker import SliceTracker
from controller_manager.control.endpoints.trigger_time import TriggerTimes
from controller_manager.control.pods_by_node import PODS_BY_NODE
from controller_manager.informers.changes import DependsOn
from controller_manager.informers.dispatch import Handler
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.controller import Controller, WorkerGroup
from controller_manager.runtime.outcome import DONE, Outcome
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.watches import For
from controller_manager.runtime.worker import Workers
from controller_manager.workqueue.ratelimiters import Backoff, ExponentialBackoff

from .decide import MANAGER
from .desired import zone_of
from .metrics import EndpointSliceMetrics
from .options import EndpointSliceOptions
from .sync import PodsSkipped, ServiceSync, SyncFailed, SyncTools
from .topology_cache import TopologyHints, is_ready_node
from .tracker import ServiceTracker


class NodeHandlers:
    """Finds the pods whose endpoints change because their node has changed.

    Only the presence and the zone of a node matter, and for hints its readiness. So a
    heartbeat costs one comparison.
    """

    def __init__(
        self,
        context: ControllerContext,
        pods_changed: Callable[[Iterable[Pod]], None],
        pods_lost_node: Callable[[Iterable[Pod]], None],
        capacity_changed: Callable[[], None],
    ) -> None:
        """Watch the nodes.

        `pods_changed` is called with the pods of a node that is new or in another zone,
        `pods_lost_node` with those of one that is gone. `capacity_changed` is called
        when the shares of the zones in the CPUs of the cluster may have changed.
        """
        self.nodes = context.lister(NODES)
        self._pods = context.lister(PODS, PODS_BY_NODE)
        self._pods_changed = pods_changed
        self._pods_lost_node = pods_lost_node
        self._capacity_changed = capacity_changed
        context.informers.informer(NODES).add_handler(
            Handler(
                on_add=self._added,
                on_update=self._updated,
                on_delete=self._deleted,
                depends_on=DependsOn("metadata.labels", "status.conditions[Ready]"),
            )
        )

    def _added(self, node: Node) -> None:
        self._capacity_changed()
        self._pods_changed(self._pods_of(node))

    def _deleted(self, node: Node) -> None:
        self._capacity_changed()
        self._pods_lost_node(self._pods_of(node))

    def _updated(self, old: Node, new: Node) -> None:
        has_other_zone = zone_of(old) != zone_of(new)
        if has_other_zone or is_ready_node(old) != is_ready_node(new):
            self._capacity_changed()
        if has_other_zone:
            self._pods_changed(self._pods_of(new))

    def _pods_of(self, node: Node) -> Sequence[Pod]:
        return self._pods.by_index(PODS_BY_NODE, node.metadata.name)


def is_managed(each: EndpointSlice) -> bool:
    """Tell whether this controller manages a slice."""
    return labels_of(each).get(MANAGED_BY) == MANAGER


def slice_handler(
    tracker: SliceTracker, changed: Callable[[str], None]
) -> Handler[EndpointSlice]:
    """Return a handler that calls `changed` with the key of a service.

    It does so if another client has changed a slice that this controller manages or
    managed.
    """

    def report(*slices: EndpointSlice) -> None:
        for key in dict.fromkeys(map(service_key_of, slices)):
            if key:
                changed(key)

    def added(new: EndpointSlice) -> None:
        if is_managed(new) and not tracker.is_own_write(new):
            report(new)

    def updated(old: EndpointSlice, new: EndpointSlice) -> None:
        if not is_managed(old) and not is_managed(new):
            return
        if not tracker.is_own_write(new) and _differ(old, new):
            report(old, new)

    def deleted(last: EndpointSlice) -> None:
        if not tracker.gone(last) and is_managed(last):
            report(last)

    return Handler(on_add=added, on_update=updated, on_delete=deleted)


def _differ(old: EndpointSlice, new: EndpointSlice) -> bool:
    """Tell whether more than annotations and owners has changed."""
    return (
        old.metadata.labels != new.metadata.labels
        or old.endpoints != new.endpoints
        or old.ports != new.ports
        or is_deleting(old) != is_deleting(new)
    )


_FIRST_RETRY: Final = 1.0
"""Seconds until the first retry of a failed sync; each further delay is doubled."""

_SLICE_DELAY: Final = 1.0
"""The shortest delay in seconds after another client has changed the slices of a
service.
"""

_CAPACITY: Final = "capacity"
"""The only key of the queue of changed nodes."""


def init_endpoint_slice_controller(context: ControllerContext) -> Controller:
    """Wire the controller to its informers (NewController)."""
    reconciler = EndpointSliceReconciler(context)
    return WorkerGroup(reconciler.make_workers(), reconciler.make_capacity_workers())


class EndpointSliceReconciler(Reconciler[Service]):
    """Keeps the slices of each service equal to its pods."""

    watches = (For(SERVICES),)
    queue_name = "endpoint_slice"

    def __init__(self, context: ControllerContext) -> None:
        """Take the context; watch pods, nodes and slices, too."""
        super().__init__(context)
        options = context.config.of(EndpointSliceOptions)
        self.workers = options.concurrent_syncs
        self._batch_period = options.updates_batch_period
        self._services_of_pods = ServicesOfPods(
            context.lister(SERVICES, *SERVICE_INDEXES)
        )
        self._pods = context.lister(PODS, *POD_INDEXES)
        self._slices = context.lister(ENDPOINT_SLICES, BY_SERVICE)
        self._services_tracker = ServiceTracker(context.clock)
        self._times = TriggerTimes()
        self._metrics = context.metrics.of(EndpointSliceMetrics)
        self._tracker = SliceTracker(self._slices)
        self._leads = False
        self._capacity = context.queue("endpoint_slice_topology")
        nodes = NodeHandlers(
            context, self._pods_changed, self._pods_lost_node, self._capacity_changed
        )
        self._topology = TopologyHints(nodes.nodes.all)
        self._tools = SyncTools(
            pods=self._pods,
            nodes=nodes.nodes,
            writer=SliceWriter(context.client, self._tracker, self._metrics.wrote),
            topology=self._topology,
            metrics=self._metrics,
            recorder=context.recorder,
            limit=options.max_endpoints_per_slice,
        )
        self._watch_others(context)

    def _watch_others(self, context: ControllerContext) -> None:
        """Add the handlers of pods and slices."""
        informer = context.informers.informer(PODS)
        informer.add_handler(
            pod_handler(self._services_of_pods, self._pod_changed, lambda: self._leads)
        )
        handler = slice_handler(self._tracker, self._slice_changed)
        context.informers.informer(ENDPOINT_SLICES).add_handler(handler)

    def backoff(self) -> Backoff:
        """Return delays that begin with one second: a sync may write many slices."""
        return ExponentialBackoff(_FIRST_RETRY)

    def make_capacity_workers(self) -> Workers:
        """Return the worker that checks hints when nodes have changed."""
        return self.context.workers(self._capacity, self._check_hints, 1)

    # Handlers, and the state that they keep.

    def starting(self) -> None:
        """Accept events: this process begins to lead, and all services are synced."""
        self._leads = True

    def _pod_changed(self, key: str, pod: Pod) -> None:
        self._services_tracker.pod_changed(key, pod.metadata.name)
        self.queue.add_after(key, self._batch_period)

    def _pods_changed(self, pods: Iterable[Pod]) -> None:
        """Sync the services of pods whose node is new, or in another zone."""
        for pod in pods if self._leads else ():
            for key in self._services_of_pods.keys(pod):
                self._pod_changed(key, pod)

    def _pods_lost_node(self, pods: Iterable[Pod]) -> None:
        """Let the next sync check pods; it is not requested: they will be deleted."""
        for pod in pods if self._leads else ():
            for key in self._services_of_pods.keys(pod):
                self._services_tracker.pod_changed(key, pod.metadata.name)

    def _slice_changed(self, key: str) -> None:
        if self._leads:
            self.queue.add_after(key, max(_SLICE_DELAY, self._batch_period))

    def _capacity_changed(self) -> None:
        self._topology.nodes_changed()
        if self._leads and len(self._topology):
            self._capacity.add(_CAPACITY)

    def deleted(self, obj: Service) -> None:
        """Drop the state of a service; a new service of its name begins without it."""
        self.forget(key_of(obj))

    def forget(self, key: str) -> None:
        """Drop the state of a deleted service; its slices are garbage-collected."""
        self._services_tracker.forget(key)
        self._times.forget(key)
        self._topology.forget(key)
        self._metrics.forget(key)

    def stale(self, resource: AnyResource) -> None:  # noqa: ARG002 - of any cache
        """Count a sync that waits until the caches show the last writes."""
        self._metrics.synced("stale")

    # The sync.

    async def reconcile(self, service: Service) -> Outcome:
        """Write the slices that differ from the pods of the service."""
        key = key_of(service)
        if not selects_pods(service):
            self._services_tracker.forget(key)
            self._metrics.synced("success")
            return DONE
        try:
            await self._sync_slices(key, service)
        except SyncFailed as error:
            message = f"Error updating Endpoint Slices for Service {key}: {error}"
            reason = "FailedToUpdateEndpointSlices"
            self.recorder.event(SERVICES, service, WARNING, reason, message)
            self._metrics.synced("error")
            raise error.cause from error
        self._metrics.synced("success")
        return DONE

    async def _sync_slices(self, key: str, service: Service) -> None:
        known, pods = self._services_tracker.of(key, service), None
        if known is None:
            known = self._services_tracker.start(
                key, service, address_types_of(service)
            )
            pods = pods_of(self._pods, service)
            known.changed.update(dict.fromkeys(each.metadata.name for each in pods))
        sync = ServiceSync(self._tools, service, known)
        try:
            if pods is None:
                time = self._observe_some(service, known.changed)
            else:
                time = self._times.observe(service, pods)
            await sync.run(self._slices_of(key), time)
        except PodsSkipped:
            raise
        except BaseException:
            self._services_tracker.forget(key)
            raise

    def _observe_some(self, service: Service, names: Iterable[str]) -> str:
        namespace = service.metadata.namespace
        found = {name: self._pods.get(namespace, name) for name in names}
        present = {
            name: pod
            for name, pod in found.items()
            if pod is not None and is_selected(pod, service)
        }
        gone = found.keys() - present.keys()
        return self._times.observe_some(service, present.values(), gone)

    def _slices_of(self, key: str) -> Sequence[EndpointSlice]:
        """Return the slices of a service without those that are being deleted."""
        return [
            each
            for each in self._slices.by_index(BY_SERVICE, key)
            if is_managed(each)
            and not is_deleting(each)
            and not self._tracker.is_deleted(each)
        ]

    async def _check_hints(self, _: str) -> Outcome:
        """Enqueue the services whose hints do not fit the nodes any more."""
        for key in self._topology.overloaded():
            self.queue.add(key)
        return DONE
