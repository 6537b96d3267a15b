"""One controller alone: caches that a test fills, and a client that the test gives.

A sync runs from its beginning to its end without an event loop, as long as the client
never waits. So a test can ask what a controller writes for thousands of situations.
"""

import random
from collections.abc import Coroutine, Iterable
from datetime import UTC, datetime
from functools import cache
from types import SimpleNamespace
from typing import Any, Final, TypeVar, cast

from prometheus_client import CollectorRegistry

from controller_manager.api.meta import AnyResource, KubeObject, Resource
from controller_manager.client.rest.client import Client
from controller_manager.informers.store import Index, Lister, Store
from controller_manager.observability.logs import silent_logger
from controller_manager.observability.metrics.collectors import Collectors
from controller_manager.options.config import Config
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.workqueue.queue import WorkQueue
from tests.clusters import make_config

NOW: Final = datetime(2026, 1, 1, 12, tzinfo=UTC)

ObjectT = TypeVar("ObjectT", bound=KubeObject)
ReconcilerT = TypeVar("ReconcilerT", bound=Reconciler[Any])
ResultT = TypeVar("ResultT")


class StillClock:
    """A clock that stands still."""

    def __init__(self, now: datetime = NOW) -> None:
        self._now = now

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._now.timestamp()


class Caches:
    """The caches of one controller; what is read again is put into them."""

    def __init__(self) -> None:
        self._stores: dict[str, Store[Any]] = {}

    def fill(self, resource: Resource[ObjectT], objects: Iterable[ObjectT]) -> None:
        for each in objects:
            self.store(resource).put(each)

    def store(self, resource: AnyResource) -> Store[Any]:
        return self._stores.setdefault(resource.plural, Store())

    def informer(self, resource: AnyResource) -> Any:
        store = self.store(resource)

        def reread(obj: KubeObject) -> bool:
            store.put(obj)
            return True

        return SimpleNamespace(store=store, reread=reread, add_handler=lambda _: None)


class Recorder:
    """Keeps events as (type, reason, message)."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str]] = []

    def event(
        self,
        resource: AnyResource,
        obj: KubeObject,
        type_: str,
        reason: str,
        message: str,
    ) -> None:
        del resource, obj
        self.events.append((type_, reason, message))


class Alone:
    """A controller of a class, with the caches, client and recorder that it has."""

    def __init__(
        self,
        make: type[ReconcilerT],
        client: Any,
        caches: Caches,
        config: Config | None = None,
    ) -> None:
        self.recorder = Recorder()
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
            metrics=_collectors(),
            consistency=SimpleNamespace(record=self._record, forget=lambda _: None),
            queue=lambda name, backoff: WorkQueue(clock, backoff, name=name),
            lister=lister,
        )
        self.controller = make(cast("ControllerContext", context))

    def _record(self, key: str, resource: AnyResource, obj: KubeObject) -> None:
        del resource
        self.awaited.append((key, obj.metadata.name))

    def reconcile(self, obj: KubeObject) -> Any:
        """Return the outcome of a sync; raises what the sync raises."""
        return ended(self.controller.reconcile(obj))


@cache
def _collectors() -> Collectors:
    return Collectors(CollectorRegistry(), "host", "test")


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
