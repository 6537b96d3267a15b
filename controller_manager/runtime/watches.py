"""Declarations of the resources that a reconciler watches, and the log of what they do.

``For`` names the objects that are reconciled, ``Owns`` their dependents, and ``Maps``
any other objects, with a function from an object to keys. ``Handles`` has a handler for
what none of them can say. The reconciler makes informers, indexes and handlers from
them. Upstream: controller-runtime's For, Owns and Watches(EnqueueRequestsFromMapFunc).

The log at ``-v=5`` tells which keys a change adds to queues, or that it adds none. With
it, and with the `watches` of a reconciler, one sees why an object was not synced.
"""

from collections.abc import Callable, Iterable
from contextvars import ContextVar
from dataclasses import replace
from functools import wraps
from typing import Any, Final, Generic, Literal, TypeVar

from msgspec import Struct, structs

from controller_manager.api.meta import AnyResource, KubeObject, Resource, key_of
from controller_manager.informers.changes import DependsOn
from controller_manager.informers.dispatch import Handler, ignore
from controller_manager.observability.logs import SYNC_FIELDS, Logger, silent_logger
from controller_manager.options.config import Config

ObjectT = TypeVar("ObjectT", bound=KubeObject)

Change = Literal["add", "update", "delete"]

EVERY_CHANGE: Final[tuple[Change, ...]] = ("add", "update", "delete")


def _always(_: object) -> bool:
    return True


def _always_changed(_: object, __: object) -> bool:
    return True


class For(Struct, Generic[ObjectT], frozen=True):
    """The objects that are reconciled: each is a key.

    The key of an object is added when the object is added, changes or is deleted,
    and once for each object when the controller starts. `when` is a predicate: an
    object that it rejects is left out, unless it was deleted. A key is added
    `delay` seconds later, except after a deletion. `update_delay` returns the seconds
    for an update; it is called with the reconciler, the old and the new object. It is
    `delay` by default. `delay_from` returns the `delay` for a configuration.
    `when_changed` is a predicate of updates, with the old and the new object: an update
    that it rejects adds no key. `depends_on` names the parts of an object without whose
    change an update adds no key; the predicates are not even called then. A controller
    of nodes rejects heartbeats by it.

    >>> def spec_changed(old: Website, new: Website) -> bool:
    ...     return old.spec != new.spec
    >>> For(WEBSITES, when_changed=spec_changed).resource.plural
    'websites'
    """

    resource: Resource[ObjectT]
    when: Callable[[ObjectT], bool] = _always
    delay: float = 0.0
    delay_from: Callable[[Config], float] | None = None
    update_delay: Callable[[Any, ObjectT, ObjectT], float] | None = None
    when_changed: Callable[[ObjectT, ObjectT], bool] = _always_changed
    depends_on: DependsOn | None = None

    def configured(self, config: Config) -> "For[ObjectT]":
        """Return this with the delay that the configuration asks for."""
        if self.delay_from is None:
            return self
        return structs.replace(self, delay=self.delay_from(config))


class Owns(Struct, Generic[ObjectT], frozen=True):
    """The dependents of the reconciled objects, as owner references say.

    A change of a dependent adds the key of its owner. A change of owner adds the
    keys of both owners. A change of an orphan adds the keys of all objects whose
    selector matches it. A key is added `delay` seconds later: so many changes of an
    object's dependents cause one sync. Without `when_added`, a new dependent that has
    an owner adds no key.

    >>> Owns(apps_v1.DEPLOYMENTS, delay=1.0).delay
    1.0
    """

    resource: Resource[ObjectT]
    delay: float = 0.0
    when_added: bool = True


class Maps(Struct, Generic[ObjectT], frozen=True):
    """Other objects, with a function that returns the keys to add for a change.

    `to_keys` is called with the reconciler and the object; an update calls it for
    the old and for the new object. `on` lists the changes that count. `depends_on`
    names the parts without whose change an update adds no key.

    >>> def websites_of(reconciler, config_map):
    ...     return [f"{config_map.metadata.namespace}/shop"]
    >>> watch = Maps(core_v1.CONFIG_MAPS, websites_of, on=("add", "update"))
    >>> [*watch.to_keys(None, settings)]
    ['default/shop']
    """

    resource: Resource[ObjectT]
    to_keys: Callable[[Any, ObjectT], Iterable[str]]
    on: tuple[Change, ...] = EVERY_CHANGE
    depends_on: DependsOn | None = None


class Handles(Struct, Generic[ObjectT], frozen=True):
    """Other objects, with the handler that a reconciler has for their changes.

    `handler` returns it; it is called with the reconciler, once its workers are made.

    >>> watch = Handles(core_v1.NODES, lambda self: Handler(on_delete=self.node_gone))
    >>> watch.resource.kind
    'Node'
    """

    resource: Resource[ObjectT]
    handler: Callable[[Any], Handler[ObjectT]]


Watch = For[Any] | Owns[Any] | Maps[Any] | Handles[Any]


_LEVEL: Final = 5
_SILENT: Final = silent_logger()


class _Change(Struct):
    """A change whose handler runs now."""

    what: str
    adds_key: bool = False


_CHANGE: Final[ContextVar[_Change | None]] = ContextVar("change", default=None)


def enqueue_log(logger: Logger, queue: str) -> Callable[[str, float], None]:
    """Return a function that logs each key added to a queue, with the cause.

    It takes the key, and the seconds after which the key is added.
    """

    def log_key(key: str, delay: float) -> None:
        if (log := logger.v(_LEVEL)) is not _SILENT:
            fields = {"after": float(delay)} if delay > 0 else {}
            log.info("Enqueued", queue=queue, key=key, cause=_cause_for(key), **fields)

    return log_key


def _cause_for(key: str) -> str:
    if (change := _CHANGE.get()) is not None:
        change.adds_key = True
        return change.what
    if (sync := SYNC_FIELDS.get()) is None:
        return "the controller itself"
    return "its own sync" if sync["key"] == key else f"sync of {sync['key']}"


class WatchLog:
    """Logs the changes that add no key, for the handlers of one reconciler."""

    def __init__(self, logger: Logger) -> None:
        self._logger = logger
        self._seen = ""
        """The change that a handler has looked at, until all handlers have run."""

    def telling(self, resource: AnyResource, handler: Handler[Any]) -> Handler[Any]:
        """Return a handler that does the same, and logs what comes of it."""
        functions: dict[str, Any] = {}
        for verb in ("add", "update", "delete"):
            function = getattr(handler, f"on_{verb}")
            if function is not ignore:
                functions[f"on_{verb}"] = self._telling(verb, resource, function)
        return replace(handler, **functions)

    def _telling(
        self, verb: str, resource: AnyResource, function: Callable[..., None]
    ) -> Callable[..., None]:
        @wraps(function)
        def tell(*objects: Any) -> None:  # noqa: ANN401 - by the resource
            if (log := self._logger.v(_LEVEL)) is _SILENT:
                function(*objects)
                return
            change = _Change(_words(verb, resource, objects[-1]))
            self._seen = change.what
            token = _CHANGE.set(change)
            try:
                function(*objects)
            finally:
                _CHANGE.reset(token)
            if not change.adds_key:
                log.info("Change adds no key", cause=change.what)

        return tell

    def rest(self, resource: AnyResource) -> Handler[Any] | None:
        """Return a handler that logs what no other handler looks at.

        It comes after all others. It is `None` below ``-v=5``: a handler of every
        change would make heartbeats dear.
        """
        if self._logger.v(_LEVEL) is _SILENT:
            return None

        def tell(verb: str, obj: Any) -> None:  # noqa: ANN401 - by the resource
            what = _words(verb, resource, obj)
            if what != self._seen:
                self._logger.v(_LEVEL).info("No handler looks at change", cause=what)
            self._seen = ""

        return Handler(
            on_update=lambda _, new: tell("update", new),
            on_delete=lambda last: tell("delete", last),
        )


def _words(verb: str, resource: AnyResource, obj: Any) -> str:  # noqa: ANN401
    return f"{verb} of {resource.group_resource} {key_of(obj)}"
