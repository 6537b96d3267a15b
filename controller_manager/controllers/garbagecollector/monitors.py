"""Watching everything that can be deleted, as discovery lists it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from controller_manager.api.meta import PartialObject
from controller_manager.api.resources import Resource
from controller_manager.client.discovery import Discovery, ServedResource
from controller_manager.controllers.garbagecollector.graph import Graph
from controller_manager.informers.factory import InformerFactory
from controller_manager.informers.informer import Handler, SharedInformer
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
    handler: Handler[Any]


class Monitors:
    """One watch of metadata for each resource, into one graph.

    A resource that controllers watch anyway is not watched twice.
    """

    def __init__(
        self,
        informers: InformerFactory,
        graph: Graph,
        logger: Logger,
        served_changes: Callable[[], None],
    ) -> None:
        """Take where watches are had, and the graph to keep true.

        `served_changes` is called when a custom resource is defined or dropped.
        """
        self._served_changes = served_changes
        self._missing_since: dict[tuple[str, str], float] = {}
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
            if not each.informer.is_synced
        ]

    def adjust(self, discovery: Discovery, now: float) -> None:
        """Watch what is served, and no longer what is not.

        What could not be found out stays as it was, and so does, for a minute,
        what is missing: an API server that starts knows custom resources late.
        `now` is a monotonic time in seconds.
        """
        served = {(each.api_version, each.kind): each for each in discovery.resources}
        for key, known in self.served.items():
            if key in served:
                self._missing_since.pop(key, None)
                continue
            since = self._missing_since.setdefault(key, now)
            if known.api_version in discovery.failures or now - since < _MISSING:
                served[key] = known
            else:
                del self._missing_since[key]
        self.served = served
        wanted = {
            (each.group, each.plural): each
            for each in discovery.preferred("delete", "list", "watch")
            if (each.group, each.plural) not in _IGNORED
        }
        for name, monitor in list(self._monitors.items()):
            found = wanted.get(name)
            if found is not None and found.version == monitor.resource.version:
                continue
            resource = monitor.resource
            if found is None and (resource.api_version, resource.kind) in served:
                continue  # it may come back
            self._stop(name, monitor)
        for name, found in wanted.items():
            if name not in self._monitors:
                self._start(name, found)

    def _start(self, name: tuple[str, str], found: ServedResource) -> None:
        resource = found.metadata_resource()
        informer = self._informers.monitor(resource)
        graph = self._graph
        handler: Handler[Any] = Handler(
            on_add=lambda new: graph.seen(resource, None, new),
            on_update=lambda old, new: graph.seen(resource, old, new),
            on_delete=graph.gone,
        )
        self._monitors[name] = _Monitor(resource, informer, handler)
        informer.add_handler(handler)
        if name == _DEFINITIONS:
            informer.add_handler(
                Handler(
                    on_add=lambda _: self._served_changes(),
                    on_update=lambda _, __: self._served_changes(),
                    on_delete=lambda _: self._served_changes(),
                )
            )
        self._logger.v(2).info("Watching", resource=resource.group_resource)

    def _stop(self, name: tuple[str, str], monitor: _Monitor) -> None:
        del self._monitors[name]
        monitor.informer.remove_handler(monitor.handler)
        self._informers.give_up(monitor.resource)
        self._graph.forget(monitor.resource)
        self._logger.v(2).info(
            "Watching no more", resource=monitor.resource.group_resource
        )
