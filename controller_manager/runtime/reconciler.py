"""A controller as a class: its watches, and the reconcile of one object."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

from controller_manager.api.meta import (
    AnyResource,
    KubeObject,
    Resource,
    controller_of,
    is_deleting,
    key_of,
)
from controller_manager.informers.dispatch import Handler
from controller_manager.informers.store import (
    BY_CONTROLLER,
    BY_SELECTED_LABEL,
    ORPHANS,
    ORPHANS_BY_LABEL,
    Lister,
)
from controller_manager.workqueue.queue import WorkQueue
from controller_manager.workqueue.ratelimiters import Backoff

from .consistency import requeue_for
from .context import ControllerContext
from .descriptor import Descriptor
from .outcome import DONE, Outcome, log_reasons
from .watches import For, Handles, Maps, Owns, Watch, WatchLog
from .worker import Workers

ObjectT = TypeVar("ObjectT", bound=KubeObject)
WatchedT = TypeVar("WatchedT", bound=KubeObject)


class Reconciler(ABC, Generic[ObjectT]):
    """Brings one object at a time closer to what its spec says.

    A subclass declares its `watches` and implements `reconcile`. This class makes the
    rest: the informers and their indexes, the handlers, the queue and its metrics, the
    workers. Every subclass can rely on this:

    - `reconcile` never runs twice at the same time for one key. For different keys it
      may: while a request of one waits for longer than a second, keys of other
      namespaces go on, also if there is one worker.
    - It sees its own writes: a key is not reconciled before the caches show the
      versions that its last reconcile wrote.
    - An object that is gone is not reconciled; `forget` is called for its key, and then
      `reconcile_absent`.
    - A failure is retried with a growing delay, until it succeeds.

    >>> class WebsiteReconciler(Reconciler[Website]):
    ...     watches = (For(WEBSITES), Owns(apps_v1.DEPLOYMENTS))
    ...
    ...     async def reconcile(self, website: Website) -> Outcome:
    ...         owned = self.lister(apps_v1.DEPLOYMENTS).controlled_by(website)
    ...         self.logger.info("Counted", deployments=len(owned))
    ...         return DONE

    Upstream: controller-runtime's Reconciler, and the New…Controller functions of
    pkg/controller.
    """

    watches: ClassVar[Sequence[Watch]]
    """One `For`, and any number of `Owns`, `Maps` and `Handles`."""

    queue_name: ClassVar[str] = ""
    """The queue's name in ``workqueue_*`` metrics; the controller's by default."""

    workers: int = 1
    """The number of objects that are reconciled at a time; `__init__` may set it."""

    reads_own_writes: bool = True
    """True if an object waits until the caches show the writes of its last sync.

    A controller that reads from the API server before it acts needs no waiting.
    """

    def __init__(self, context: ControllerContext) -> None:
        self.context = context
        self.client = context.client
        self.clock = context.clock
        self.logger = context.logger
        self.recorder = context.recorder
        self.queue = context.queue(self.queue_name or context.name, self.backoff())
        (declared,) = (each for each in self.watches if isinstance(each, For))
        self._for = declared.configured(context.config)
        self.resource = self._for.resource
        owns = any(isinstance(each, Owns) for each in self.watches)
        self.objects: Lister[ObjectT] = context.lister(
            self.resource, *((BY_SELECTED_LABEL,) if owns else ())
        )
        """The objects that are reconciled, from the cache."""
        self._listers: dict[AnyResource, Lister[Any]] = {self.resource: self.objects}
        self._watch_log = WatchLog(context.logger)
        for watch in self.watches:
            self._attach(watch)

    def _attach(self, watch: Watch) -> None:
        """Add the handler and the indexes that a declaration needs."""
        match watch:
            case For(resource=resource):
                changes = handler_for(self._for, self.queue, self, self._deleted)
                self._add_handler(resource, changes)
            case Owns(resource=resource):
                if resource.cluster != self.resource.cluster:
                    msg = (
                        f"Owns({resource.group_resource}): owners are in the same "
                        "cluster as their dependents; use Maps"
                    )
                    raise ValueError(msg)
                owned = (BY_CONTROLLER, ORPHANS, ORPHANS_BY_LABEL)
                self._listers[resource] = self.context.lister(resource, *owned)
                told = self.dependent_added, self.dependent_gone
                handler = OwnedHandler[Any](watch, self.objects, self.queue, *told)
                self._add_handler(resource, handler.handler())
            case Maps(resource=resource):
                if resource not in self._listers:
                    self._listers[resource] = self.context.lister(resource)
                changes = mapping_handler(watch, self.queue, self)
                self._add_handler(resource, changes)

    def _add_handler(self, resource: AnyResource, handler: Handler[Any]) -> None:
        told = self._watch_log.telling(resource, handler)
        self.context.informers.informer(resource).add_handler(told)

    @classmethod
    def make(cls, context: ControllerContext) -> Workers:
        """Return the controller's workers, not yet running."""
        return cls(context).make_workers()

    # Methods that a subclass implements.

    @abstractmethod
    async def reconcile(self, obj: ObjectT) -> Outcome:
        """Bring the cluster closer to what `obj`, a cached object, asks for.

        Return the outcome for its key; raise an exception to have it retried.
        """

    async def reconcile_absent(self, key: str) -> Outcome:  # noqa: ARG002 - any key
        """Clean up after an object that is gone, or that never was; nothing by default.

        Return the outcome for its key; raise an exception to have it retried.
        """
        return DONE

    def starting(self) -> None:
        """Prepare once, when this process may begin to write."""

    def deleted(self, obj: ObjectT) -> None:
        """Handle the deletion of a reconciled object; its key is added, too."""

    def forget(self, key: str) -> None:
        """Drop all state of a key whose object is gone."""

    def dependent_added(self, key: str, obj: Any) -> None:  # noqa: ANN401 - any kind
        """Note that a dependent of the object of `key` was added."""

    def dependent_gone(self, key: str, obj: Any) -> None:  # noqa: ANN401 - any kind
        """Note that a dependent is gone, or is being deleted."""

    def backoff(self) -> Backoff | None:
        """Return the delays between retries, `None` for upstream's default."""
        return None

    def is_known_gone(self, obj: ObjectT) -> bool:  # noqa: ARG002 - any object
        """Tell whether the API server has said that this cached object is gone."""
        return False

    def stale(self, resource: AnyResource) -> None:
        """Note that a sync waits for the cache of a resource to show a write."""

    # Methods that a subclass uses.

    def lister(self, resource: Resource[WatchedT]) -> Lister[WatchedT]:
        """Return the lister of a watched resource; raises KeyError for another."""
        return self._listers[resource]

    def enqueue_all(self) -> Iterator[None]:
        """Call `starting`, then add the key of every object, one in each step."""
        self.starting()
        add = partial(enqueue, self.queue, self._for)
        yield from self.context.one_by_one(self.objects.all(), add)

    def make_workers(self) -> Workers:
        """Return the workers, not yet running; watch what `Handles` declares."""
        for watch in self.watches:
            if isinstance(watch, Handles):
                self._add_handler(watch.resource, watch.handler(self))
        for resource in dict.fromkeys(each.resource for each in self.watches):
            if (rest := self._watch_log.rest(resource)) is not None:
                self.context.informers.informer(resource).add_handler(rest)
        self.context.consistency.records_writes = self.reads_own_writes
        return self.context.workers(
            self.queue,
            self._sync,
            self.workers,
            on_start=self.enqueue_all,
            gives_way=True,
        )

    def _deleted(self, obj: ObjectT) -> None:
        # A new object of the same name does not wait for writes of this one's syncs.
        self.context.consistency.forget(key_of(obj))
        self.deleted(obj)

    async def _sync(self, key: str) -> Outcome:
        obj = self.objects.by_key(key)
        if obj is None:
            self.context.consistency.forget(key)
            self.queue.cancel(key)
            self.forget(key)
            return await self.reconcile_absent(key)
        if self.is_known_gone(obj):
            return DONE
        if (stale := self.context.consistency.stale_cache(key)) is not None:
            self.stale(stale.resource)
            return requeue_for(stale)
        outcome = await self.reconcile(obj)
        log_reasons(outcome, self.logger)
        return outcome


def with_watched(descriptor: Descriptor) -> Descriptor:
    """Return a descriptor that also requires what its class watches, each once.

    Raises ImportError or AttributeError if the class cannot be imported.
    """
    loaded = descriptor.resolve()
    watched: tuple[AnyResource, ...] = ()
    if isinstance(loaded, type) and issubclass(loaded, Reconciler):
        watched = tuple(each.resource for each in loaded.watches)
    required = (*descriptor.requires, *watched)
    whole = (replace(each, field_selector="") for each in required)
    return replace(descriptor, requires=tuple(dict.fromkeys(whole)))


def enqueue(queue: WorkQueue, watch: For[ObjectT], obj: ObjectT) -> None:
    """Add the key of a reconciled object, if the watch's predicate accepts it."""
    if watch.when(obj):
        _add(queue, key_of(obj), watch.delay)


def _add(queue: WorkQueue, key: str, delay: float) -> None:
    if delay:
        queue.add_after(key, delay)
    else:
        queue.add(key)


def handler_for(
    watch: For[ObjectT],
    queue: WorkQueue,
    reconciler: object,
    deleted: Callable[[ObjectT], None],
) -> Handler[ObjectT]:
    """Return the handler of the reconciled objects.

    `deleted` is called with each object that was deleted.
    """

    def gone(obj: ObjectT) -> None:
        deleted(obj)
        queue.add(key_of(obj))

    def updated(old: ObjectT, new: ObjectT) -> None:
        if not watch.when_changed(old, new):
            return
        if watch.update_delay is None:
            enqueue(queue, watch, new)
        elif watch.when(new):
            _add(queue, key_of(new), watch.update_delay(reconciler, old, new))

    return Handler(
        on_add=lambda new: enqueue(queue, watch, new),
        on_update=updated,
        on_delete=gone,
        depends_on=watch.depends_on,
    )


def mapping_handler(
    watch: Maps[ObjectT], queue: WorkQueue, reconciler: object
) -> Handler[ObjectT]:
    """Return a handler that adds the keys that the watch's function returns."""

    def add(keys: Iterable[str]) -> None:
        for key in keys:
            queue.add(key)

    def one(obj: ObjectT) -> None:
        add(watch.to_keys(reconciler, obj))

    def both(old: ObjectT, new: ObjectT) -> None:
        add(
            dict.fromkeys(
                [*watch.to_keys(reconciler, old), *watch.to_keys(reconciler, new)]
            )
        )

    hooks: dict[str, Any] = {"add": one, "update": both, "delete": one}
    chosen = {f"on_{change}": hooks[change] for change in watch.on}
    return Handler(**chosen, depends_on=watch.depends_on)


@dataclass(slots=True)
class OwnedHandler(Generic[ObjectT]):
    """Adds the keys of the owners of objects that change.

    Upstream: addPod, updatePod and deletePod of pkg/controller/replicaset, which
    upstream repeats in each controller.
    """

    watch: Owns[ObjectT]
    owners: Lister[Any]
    queue: WorkQueue
    added: Callable[[str, ObjectT], None]
    """Called with the key of the owner, and its new dependent."""

    gone: Callable[[str, ObjectT], None]
    """Called with the key of the owner, and its dependent that is gone or leaving."""

    def handler(self) -> Handler[ObjectT]:
        """Return the handler, which ignores objects with owners of other kinds."""
        return Handler(
            on_add=self._added,
            on_update=self._updated,
            on_delete=self._deleted,
            owner_kind=self.owners.kind,
        )

    def _key_of_owner(self, obj: ObjectT) -> str | None:
        owner = self.owners.controller_of(obj)
        return None if owner is None else key_of(owner)

    def _enqueue(self, key: str) -> None:
        _add(self.queue, key, self.watch.delay)

    def _added(self, obj: ObjectT) -> None:
        if is_deleting(obj):
            # After a restart an object may be terminating when it is first seen.
            self._deleted(obj)
        elif controller_of(obj) is None:
            self._orphan_changed(obj)
        elif (key := self._key_of_owner(obj)) is not None:
            self.added(key, obj)
            if self.watch.when_added:
                self._enqueue(key)

    def _updated(self, old: ObjectT, new: ObjectT) -> None:
        # Most of the time it is the same object: the caches share owners.
        handed_over = (
            old.metadata.owner_references is not new.metadata.owner_references
            and controller_of(old) != controller_of(new)
        )
        if is_deleting(new):
            # An object that is being deleted does not count: tell its owner now.
            self._deleted(new)
            if handed_over:
                self._deleted(old)
            return
        if handed_over and (former := self._key_of_owner(old)) is not None:
            self._enqueue(former)
        if controller_of(new) is None:
            if handed_over or old.metadata.labels != new.metadata.labels:
                self._orphan_changed(new)
        elif (key := self._key_of_owner(new)) is not None:
            self._enqueue(key)

    def _orphan_changed(self, obj: ObjectT) -> None:
        for owner in self.owners.selecting(obj):
            self._enqueue(key_of(owner))

    def _deleted(self, obj: ObjectT) -> None:
        if (key := self._key_of_owner(obj)) is not None:
            self.gone(key, obj)
            self._enqueue(key)
