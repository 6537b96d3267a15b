"""One controller alone: caches that a test fills, and a client that the test gives.

A sync runs from its beginning to its end without an event loop, as long as the client
never waits. So a test can ask what a controller writes for thousands of situations.
"""

import random
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from types import SimpleNamespace
from typing import Any, Final, TypeVar, cast

from prometheus_client import CollectorRegistry

from controller_manager.api.meta import AnyResource, KubeObject, Resource
from controller_manager.client.rest.client import Client
from controller_manager.informers.dispatch import Handler
from controller_manager.informers.store import Index, Lister, Store
from controller_manager.observability.logs import silent_logger
from controller_manager.observability.metrics.collectors import Collectors
from controller_manager.options.config import Config
from controller_manager.runtime.context import ControllerContext
from controller_manager.workqueue.queue import WorkQueue
from tests.clusters import make_config

NOW: Final = datetime(2026, 1, 1, 12, tzinfo=UTC)

ObjectT = TypeVar("ObjectT", bound=KubeObject)
ResultT = TypeVar("ResultT")


class StillClock:
    """A clock that stands still."""

    def __init__(self, now: datetime = NOW) -> None:
        self._now = now

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._now.timestamp()


@dataclass
class Informer:
    """An informer that shows its handlers the events which the test gives."""

    store: Store[Any] = field(default_factory=Store)
    epoch: int = 0
    handlers: list[Handler[Any]] = field(default_factory=list)

    def add_handler(self, handler: Handler[Any]) -> None:
        self.handlers.append(handler)

    def reread(self, obj: KubeObject) -> bool:
        self.store.put(obj)
        return True

    def show(self, obj: KubeObject) -> None:
        old = self.store.put(obj)
        for handler in self.handlers:
            if old is None:
                handler.on_add(obj)
            else:
                handler.on_update(old, obj)

    def remove(self, key: str) -> None:
        gone = self.store.remove(key)
        assert gone is not None
        for handler in self.handlers:
            handler.on_delete(gone)


class Caches:
    """The caches of one controller; what is read again is put into them."""

    def __init__(self) -> None:
        self._informers: dict[str, Informer] = {}

    def fill(self, resource: Resource[ObjectT], objects: Iterable[ObjectT]) -> None:
        for each in objects:
            self.store(resource).put(each)

    def store(self, resource: AnyResource) -> Store[Any]:
        return self.informer(resource).store

    def informer(self, resource: AnyResource) -> Informer:
        return self._informers.setdefault(resource.plural, Informer())


class Recorder:
    """Keeps events as (type, reason, message), and the objects that they are about."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str]] = []
        self.about: list[KubeObject] = []

    def event(
        self,
        resource: AnyResource,
        obj: KubeObject,
        type_: str,
        reason: str,
        message: str,
    ) -> None:
        del resource
        self.about.append(obj)
        self.events.append((type_, reason, message))


class Alone:
    """A controller of a class, with the caches, client and recorder that it has."""

    def __init__(
        self,
        make: type[Any],
        client: Any,
        caches: Caches,
        config: Config | None = None,
        registry: CollectorRegistry | None = None,
    ) -> None:
        self.recorder = Recorder()
        self.added: list[str] = []
        """The keys that were added to queues."""
        self.awaited: list[tuple[str, str]] = []
        """Keys, and the names of objects for which they wait, as recorded."""
        clock = StillClock()

        def lister(resource: Resource[ObjectT], *indexes: Index) -> Lister[ObjectT]:
            return Lister(caches.store(resource), resource.kind, *indexes)

        context = SimpleNamespace(
            name=make.__name__,
            config=config or make_config(),
            client=cast("Client", client),
            informers=caches,
            recorder=self.recorder,
            clock=clock,
            server_clock=clock,
            rng=random.Random(1),
            logger=silent_logger(),
            metrics=_collectors() if registry is None else _collectors_in(registry),
            consistency=SimpleNamespace(record=self._record, forget=lambda _: None),
            queue=lambda name, backoff=None: WorkQueue(
                clock, backoff, name=name, on_add=lambda key, _: self.added.append(key)
            ),
            lister=lister,
        )
        self.controller: Any = make(cast("ControllerContext", context))

    def _record(self, key: str, resource: AnyResource, obj: KubeObject) -> None:
        del resource
        self.awaited.append((key, obj.metadata.name))

    def reconcile(self, obj: KubeObject) -> Any:
        """Return the outcome of a sync; raises what the sync raises."""
        return ended(self.controller.reconcile(obj))


@cache
def _collectors() -> Collectors:
    return _collectors_in(CollectorRegistry())


def _collectors_in(registry: CollectorRegistry) -> Collectors:
    return Collectors(registry, "host", "test")


def ended(work: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Return the result of a coroutine that never waits."""
    try:
        work.send(None)
    except StopIteration as stop:
        result: ResultT = stop.value
        return result
    work.close()
    msg = "the coroutine waits"
    raise AssertionError(msg)
