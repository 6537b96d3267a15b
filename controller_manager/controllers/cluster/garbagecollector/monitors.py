"""Watching everything that can be deleted, as discovery lists it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from controller_manager.api.meta import PartialObject
from controller_manager.api.resource import Resource
from controller_manager.client.discovery import Discovery, ServedResource
from controller_manager.controllers.cluster.garbagecollector.graph import (
    Graph,
    GroupKind,
)
from controller_manager.informers.factory import ControllerInformers
from controller_manager.informers.informer import (
    Handler,
    Registration,
    SharedInformer,
)
from controller_manager.observability.logs import Logger

_DEFINITIONS: Final = ("apiextensions.k8s.io", "customresourcedefinitions")
_MISSING: Final = 60.0
"""Seconds after which a resource that discovery does not list is believed gone."""

_IGNORED: Final = frozenset((("", "events"), ("events.k8s.io", "events")))
"""(group, plural) of what has no dependents and comes in masses."""


@dataclass(frozen=True, slots=True)
class _Monitor:
    resource: Resource[PartialObject]
    informer: SharedInformer[Any]
    registration: Registration[Any]


class Monitors:
    """One watch of metadata for each resource, into one graph.

    A resource that controllers watch anyway is not watched twice.
    """

    def __init__(
        self,
        informers: ControllerInformers,
        graph: Graph,
        logger: Logger,
        served_changes: Callable[[], None],
    ) -> None:
        """Take where watches are had, and the graph to keep true.

        `served_changes` is called when a custom resource is defined or dropped.
        """
        self._served_changes = served_changes
        self._missing_since: dict[tuple[str, str], float] = {}
        self._retired: dict[tuple[str, str], Resource[PartialObject]] = {}
        self._informers = informers
        self._graph = graph
        self._logger = logger
        self._monitors: dict[tuple[str, str], _Monitor] = {}
        self.served: Mapping[tuple[str, str], ServedResource] = {}
        """What is served, by apiVersion and kind, preferred or not."""

    def unsynced(self) -> list[str]:
        """Return the resources of which not all objects have been seen yet."""
        return [
            each.resource.group_resource
            for each in self._monitors.values()
            if not each.registration.is_synced
        ]

    def serves(self, kind: GroupKind) -> bool:
        """Tell whether the API server has a kind, in whatever version."""
        return any((each.group, each.kind) == kind for each in self.served.values())

    def unsynced_kinds(self) -> list[GroupKind]:
        """Return the kinds of which not all objects have been seen yet."""
        return [
            (each.resource.group, each.resource.kind)
            for each in self._monitors.values()
            if not each.registration.is_synced
        ]

    async def wait_for_sync(self) -> None:
        """Wait until all objects of every resource that is watched were seen."""
        while unsynced := [
            each.registration
            for each in self._monitors.values()
            if not each.registration.is_synced
        ]:
            await unsynced[0].wait_for_sync()

    def adjust(self, discovery: Discovery, now: float) -> bool:
        """Watch what is served, and no longer what is not; tell what kinds changed.

        What could not be found out stays as it was, and so does, for a minute,
        what is missing: an API server that starts knows custom resources late.
        A version is watched for as long as it is served, preferred or not.
        `now` is a monotonic time in seconds.
        """
        served = self._believed(discovery, now)
        changed = served.keys() != self.served.keys()
        self.served = served
        wanted = {
            (each.group, each.plural): each
            for each in discovery.preferred("delete", "list", "watch")
            if (each.group, each.plural) not in _IGNORED
        }
        for name, monitor in list(self._monitors.items()):
            resource = monitor.resource
            if (resource.api_version, resource.kind) not in served:
                self._stop(name, monitor, wanted.get(name))
        for name, found in wanted.items():
            if name not in self._monitors:
                self._start(name, found)
        self._drop_retired()
        return changed

    def _believed(
        self, discovery: Discovery, now: float
    ) -> dict[tuple[str, str], ServedResource]:
        """Return what is served, as far as a moment's answer is believed."""
        served = {(each.api_version, each.kind): each for each in discovery.resources}
        for key, known in self.served.items():
            if key in served:
                self._missing_since.pop(key, None)
                continue
            if known.api_version in discovery.failures:
                self._missing_since[key] = now
            since = self._missing_since.setdefault(key, now)
            if now - since < _MISSING:
                served[key] = known
            else:
                del self._missing_since[key]
        return served

    def _drop_retired(self) -> None:
        """Forget what another version of a resource has not shown."""
        for name, resource in list(self._retired.items()):
            monitor = self._monitors.get(name)
            if monitor is None or monitor.registration.is_synced:
                del self._retired[name]
                self._graph.forget(resource)

    def _start(self, name: tuple[str, str], found: ServedResource) -> None:
        resource = found.metadata_resource()
        informer = self._informers.monitor(resource)
        graph = self._graph
        handler: Handler[Any] = Handler(
            on_add=lambda new: graph.seen(resource, None, new),
            on_update=lambda old, new: graph.seen(resource, old, new),
            on_delete=graph.gone,
        )
        registration = informer.add_handler(handler)
        self._monitors[name] = _Monitor(resource, informer, registration)
        if name == _DEFINITIONS:
            informer.add_handler(
                Handler(
                    on_add=lambda _: self._served_changes(),
                    on_update=lambda _, __: self._served_changes(),
                    on_delete=lambda _: self._served_changes(),
                )
            )
        self._logger.v(2).info("Watching", resource=resource.group_resource)

    def _stop(
        self,
        name: tuple[str, str],
        monitor: _Monitor,
        successor: ServedResource | None,
    ) -> None:
        """Watch a version no longer; what it has shown may be known by another."""
        del self._monitors[name]
        monitor.informer.remove_handler(monitor.registration)
        self._informers.stop_monitor(monitor.resource)
        if successor is None:
            self._graph.forget(monitor.resource)
            self._graph.forget_kind(monitor.resource)
        else:
            self._retired[name] = monitor.resource
        self._logger.v(2).info(
            "Watching no more",
            resource=monitor.resource.group_resource,
            version=monitor.resource.version,
        )
