"""The context of a controller that syncs one object, without a manager."""

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

from prometheus_client import CollectorRegistry

from controller_manager.api.meta import AnyResource, KubeObject, Resource
from controller_manager.clock import LoopClock
from controller_manager.informers.dispatch import Handler
from controller_manager.informers.store import Index, Lister, Store
from controller_manager.observability.logs import silent_logger
from controller_manager.runtime.context import ControllerContext
from tests.clusters import EPOCH


@dataclass
class Informer:
    """An informer that shows the events which the test gives."""

    store: Store[Any] = field(default_factory=Store)
    epoch: int = 0
    handlers: list[Handler[Any]] = field(default_factory=list)

    def add_handler(self, handler: Handler[Any]) -> None:
        self.handlers.append(handler)

    def show(self, obj: KubeObject) -> None:
        old = self.store.put(obj)
        for handler in self.handlers:
            if old is None:
                handler.on_add(obj)
            else:
                handler.on_update(old, obj)

    def remove(self, name: str) -> None:
        gone = self.store.remove(name)
        assert gone is not None
        for handler in self.handlers:
            handler.on_delete(gone)


class Context:
    """Parts of a `ControllerContext`; it notes events and the keys that are added.

    An event is the name of an object, a type, a reason and a message; `about` has the
    objects.
    """

    def __init__(self, client: Any, options: Any = None) -> None:
        self.name = "test"
        self.client = client
        self.clock = LoopClock(EPOCH)
        self.config = SimpleNamespace(of=lambda _: options)
        self.logger = silent_logger()
        self.registry = CollectorRegistry()
        self.metrics = SimpleNamespace(of=self._collectors)
        self.informers = self
        self.recorder = self
        self.events: list[tuple[str, str, str, str]] = []
        self.about: list[KubeObject] = []
        self.added: list[str] = []
        self._informers: dict[AnyResource, Informer] = {}
        self._made: dict[Callable[..., Any], Any] = {}

    def of_controller(self) -> ControllerContext:
        """Return this context as a controller takes it."""
        return cast("ControllerContext", self)

    def informer(self, resource: AnyResource) -> Informer:
        return self._informers.setdefault(resource, Informer())

    def lister(self, resource: Resource[Any], *indexes: Index) -> Lister[Any]:
        return Lister(self.informer(resource).store, resource.kind, *indexes)

    def queue(self, *_: object) -> Any:
        return SimpleNamespace(add=self.added.append)

    def event(
        self, resource: AnyResource, obj: KubeObject, kind: str, reason: str, text: str
    ) -> None:
        del resource
        self.about.append(obj)
        self.events.append((obj.metadata.name, kind, reason, text))

    def _collectors(self, collectors: Callable[..., Any]) -> Any:
        if collectors not in self._made:
            self._made[collectors] = collectors(self.registry)
        return self._made[collectors]
