"""The context that a controller's init function receives."""

import random
from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from controller_manager.api.meta import KubeObject, Resource, key_of
from controller_manager.client.discovery.resource_mapper import ResourceMapper
from controller_manager.client.events.recorder import EventRecorder
from controller_manager.client.rest.client import Client
from controller_manager.clock import Clock
from controller_manager.informers.factory import ControllerInformers
from controller_manager.informers.store import Index, Lister
from controller_manager.observability.defects import Defects
from controller_manager.observability.logs import Logger
from controller_manager.observability.metrics.collectors import Collectors
from controller_manager.options.config import Config
from controller_manager.workqueue.queue import WorkQueue
from controller_manager.workqueue.ratelimiters import Backoff

from .consistency import ConsistencyStore
from .controller import Controller
from .watches import enqueue_log
from .worker import Reconcile, Turns, Workers

if TYPE_CHECKING:
    from kubernetes_asyncio.client import ApiClient

ObjectT = TypeVar("ObjectT", bound=KubeObject)


@dataclass(frozen=True, slots=True)
class ControllerContext:
    """The parts that a controller may use, made for one controller by name.

    `root_ca` has the certificates, as PEM, by which clients trust the API server; it is
    empty if none were configured. `resources` finds the resource of a kind; all
    controllers share it. `reader` reads as the manager itself, as informers do: it is
    for objects that are needed so rarely that a cache would be a waste.

    >>> context.name, context.config.of(WebsiteOptions).prefix
    ('website-operator', 'web-')

    `metrics.of` makes a class of metrics once:

    >>> class WebsiteMetrics:
    ...     def __init__(self, registry: CollectorRegistry) -> None:
    ...         self.made = Counter("websites_made", "Websites.", registry=registry)
    >>> context.metrics.of(WebsiteMetrics).made.inc()
    >>> "websites_made_total 1.0" in manager.metrics()
    True
    """

    name: str
    config: Config
    client: Client
    informers: ControllerInformers
    recorder: EventRecorder
    clock: Clock
    server_clock: Clock
    rng: random.Random
    logger: Logger
    root_ca: str
    turns: Turns
    metrics: Collectors
    consistency: ConsistencyStore
    resources: ResourceMapper
    reader: Client

    def api_client(self) -> "ApiClient":
        """Return an ApiClient of kubernetes_asyncio that sends as this controller does.

        Its writes count as those of `client`: the key under sync waits until the caches
        show them. See `Client.api_client`.
        """
        return self.client.api_client()

    def queue(self, name: str, backoff: Backoff | None = None) -> WorkQueue:
        """Return a new work queue with metrics; `backoff` is upstream's by default.

        The queue is opened when its workers start.
        """
        metrics = self.metrics.queues.queue(name)
        return WorkQueue(
            self.clock,
            backoff,
            metrics,
            is_open=False,
            name=name,
            on_add=enqueue_log(self.logger, name),
        )

    def lister(self, resource: Resource[ObjectT], *indexes: Index) -> Lister[ObjectT]:
        """Return the lister of a resource, with these indexes.

        From now on the resource is watched, and the controller starts only once its
        cache is synced.
        """
        informer = self.informers.informer(resource)
        return Lister(informer.store, resource.kind, *indexes)

    def one_by_one(
        self, objects: Iterable[ObjectT], work: Callable[[ObjectT], object]
    ) -> Iterator[None]:
        """Call a function for each object, one a step; for `on_start` of `workers`.

        An exception is logged and counted, and concerns that object only.
        """
        defects = Defects(self.logger, self.metrics.defects.count)
        for obj in objects:
            try:
                work(obj)
            except Exception as error:  # noqa: BLE001 - the others must not wait
                defects.report(self.name, error, "on_start", object=key_of(obj))
            yield

    def workers(
        self,
        queue: WorkQueue,
        reconcile: Reconcile,
        count: int,
        on_start: Callable[[], Iterable[None]] = tuple,
        ready: Callable[[], Coroutine[Any, Any, None]] | None = None,
        *,
        gives_way: bool | None = None,
    ) -> Workers:
        """Return `count` workers that take keys from `queue`.

        `on_start` is iterated over once, when they start, to add the keys of all
        objects: from then on this process may write. The workers start once `ready`
        returns, and immediately without it. A slow sync gives its place to other
        namespaces if `gives_way`; a single worker does so only if it is asked to.
        """
        return Workers(
            self.name,
            queue,
            reconcile,
            count,
            clock=self.clock,
            rng=self.rng,
            logger=self.logger,
            metrics=self.metrics.syncs.controller(self.name),
            turns=self.turns,
            on_start=on_start,
            ready=ready,
            count_defect=self.metrics.defects.count,
            gives_way=count > 1 if gives_way is None else gives_way,
        )


InitFunction = Callable[[ControllerContext], Controller]
"""Wires a controller to its informers and returns its workers, not yet running."""
