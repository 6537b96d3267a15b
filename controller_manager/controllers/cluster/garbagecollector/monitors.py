"""Monitors: watch every resource that discovery lists as deletable."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, NamedTuple, TypeVarTuple

from controller_manager.api.meta import PartialObject, Resource
from controller_manager.client.discovery.resources import Discovery, ServedResource
from controller_manager.clock import Clock
from controller_manager.control.all_resources import (
    DEFINITIONS,
    SupersededVersions,
    definitions_handler,
)
from controller_manager.informers.changes import DependsOn
from controller_manager.informers.dispatch import Handler, Registration
from controller_manager.informers.factory import ControllerInformers
from controller_manager.informers.informer import SharedInformer
from controller_manager.observability.logs import Logger
from controller_manager.observability.metrics.client import QueueCollectors
from controller_manager.runtime.worker import Turns

from .graph import Graph, GroupKind

_MISSING: Final = 60.0
"""The seconds after which a resource that discovery does not list counts as removed."""

_IGNORED: Final = frozenset((("", "events"), ("events.k8s.io", "events")))
"""(group, plural) of resources that have many objects and no dependents."""

_PARTS_OF_GRAPH: Final = DependsOn(
    "metadata.deletionTimestamp", "metadata.finalizers", "metadata.ownerReferences"
)
"""The parts of an object on which the graph depends; most changes are of its status."""


ArgumentsT = TypeVarTuple("ArgumentsT")


class GraphChanges:
    """The ``workqueue_*`` metrics of the changes of the graph.

    Upstream has a queue between the watches and the graph. This manager makes a change
    as soon as a watch shows it, so no change waits.
    """

    def __init__(self, queues: QueueCollectors, clock: Clock) -> None:
        self._metrics = queues.queue("garbage_collector_graph_changes")
        self._clock = clock

    def take(
        self, change: Callable[[*ArgumentsT], None], *arguments: *ArgumentsT
    ) -> None:
        """Make a change, and measure it."""
        begun = self._clock.monotonic()
        self._metrics.added(0)
        self._metrics.got(0.0, 0)
        change(*arguments)
        self._metrics.done(self._clock.monotonic() - begun)


class Monitor(NamedTuple):
    """The watch of one resource."""

    resource: Resource[PartialObject]
    informer: SharedInformer[Any]
    registration: Registration[Any]


class Monitors:
    """Watches the metadata of each resource, and feeds the graph.

    It shares the informer of a resource that another controller watches, too.
    `served_changes` is called after each change of a custom resource definition.
    """

    def __init__(
        self,
        informers: ControllerInformers,
        graph: Graph,
        logger: Logger,
        served_changes: Callable[[], None],
        turns: Turns,
        changes: GraphChanges,
    ) -> None:
        self._informers = informers
        self._graph = graph
        self._logger = logger
        self._served_changes = served_changes
        self._turns = turns
        self._changes = changes
        self._missing_since: dict[tuple[str, str], float] = {}
        self._versions = SupersededVersions()
        self._retired: dict[tuple[str, str], Resource[PartialObject]] = {}
        self._monitors: dict[tuple[str, str], Monitor] = {}
        self.served: Mapping[tuple[str, str], ServedResource] = {}
        """The served resources by apiVersion and kind, in all versions."""
        self.served_kinds: Collection[GroupKind] = ()
        self.undiscovered: Collection[str] = ()
        """The groups with a version that this process could never discover."""

    def unsynced(self) -> list[Monitor]:
        """Return the monitors of resources that are not synced yet."""
        return [
            each for each in self._monitors.values() if not each.registration.is_synced
        ]

    async def wait_for_sync(self) -> None:
        """Wait until all watched resources are synced."""
        while unsynced := self.unsynced():
            await unsynced[0].registration.wait_for_sync()

    async def adjust(self, discovery: Discovery, now: float) -> bool:
        """Watch the served resources and no others; tell whether kinds have changed.

        Objects of removed resources are forgotten over several turns of the loop.

        A group that could not be discovered stays as it was. A resource that is
        missing stays for a minute: a starting API server serves custom resources
        late. A version is watched until it is not served any more, or until another
        version has been the preferred one for a minute: during an upgrade each of
        several API servers prefers its own. `now` is a monotonic time in seconds.
        """
        served = self._served_now(discovery, now)
        changed = served.keys() != self.served.keys()
        self.served = served
        known = {api_version for api_version, _ in served}
        unread = discovery.failures.keys() - known
        self.undiscovered = {each.rpartition("/")[0] for each in unread}
        self.served_kinds = {(each.group, each.kind) for each in served.values()}
        wanted = {
            (each.group, each.plural): each
            for each in discovery.preferred("delete", "list", "watch")
            if (each.group, each.plural) not in _IGNORED
        }
        for name, monitor in list(self._monitors.items()):
            resource, successor = monitor.resource, wanted.get(name)
            watched = resource.api_version
            if (watched, resource.kind) not in served or self._versions.supersedes(
                name, watched, successor.api_version if successor else None, now
            ):
                await self._stop(name, monitor, successor)
        for name, found in wanted.items():
            if name not in self._monitors:
                self._start(name, found)
        await self._drop_retired()
        return changed

    def _served_now(
        self, discovery: Discovery, now: float
    ) -> dict[tuple[str, str], ServedResource]:
        """Return the served resources, with those missing for less than a minute."""
        served = {(each.api_version, each.kind): each for each in discovery.resources}
        for key, known in self.served.items():
            if key in served:
                self._missing_since.pop(key, None)
                continue
            if discovery.is_unread(known.api_version):
                self._missing_since[key] = now
            since = self._missing_since.setdefault(key, now)
            if now - since < _MISSING:
                served[key] = known
            else:
                del self._missing_since[key]
        return served

    async def _drop_retired(self) -> None:
        """Forget objects of a former version that the new version does not show."""
        for name, resource in list(self._retired.items()):
            monitor = self._monitors.get(name)
            if monitor is None or monitor.registration.is_synced:
                del self._retired[name]
                await self._forget(resource)

    async def _forget(self, resource: Resource[PartialObject]) -> None:
        turn = await self._turns.wait(0)
        for _ in self._graph.forget(resource):
            turn = await self._turns.wait(turn)

    def _start(self, name: tuple[str, str], found: ServedResource) -> None:
        resource = found.metadata_resource()
        informer = self._informers.monitor(resource)
        graph, take = self._graph, self._changes.take
        handler: Handler[Any] = Handler(
            on_add=lambda new: take(graph.seen, resource, None, new),
            on_update=lambda old, new: take(graph.seen, resource, old, new),
            on_delete=lambda old: take(graph.gone, old),
            depends_on=_PARTS_OF_GRAPH,
        )
        registration = informer.add_handler(handler)
        self._monitors[name] = Monitor(resource, informer, registration)
        if name == DEFINITIONS:
            informer.add_handler(definitions_handler(self._served_changes))
        self._logger.v(2).info("Watching", resource=resource.group_resource)

    async def _stop(
        self, name: tuple[str, str], monitor: Monitor, successor: ServedResource | None
    ) -> None:
        """Stop to watch a version; `successor` may show the same objects."""
        del self._monitors[name]
        self._versions.forget(name)
        monitor.informer.remove_handler(monitor.registration)
        self._informers.stop_monitor(resource := monitor.resource)
        if successor is None:
            await self._forget(resource)
            self._graph.forget_kind(resource)
        else:
            self._retired[name] = resource
        self._logger.v(2).info(
            "Stopped watching",
            resource=resource.group_resource,
            version=resource.version,
        )
