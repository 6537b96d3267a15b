"""Event handlers: they turn changes of watched objects into keys in a work queue."""

from collections.abc import Callable, Iterable
from typing import Any, Generic, Protocol, TypeVar

from controller_manager.api.meta import KubeObject, is_deleting, key_of
from controller_manager.api.owners import controller_of
from controller_manager.informers.dispatch import Handler
from controller_manager.informers.lister import Lister
from controller_manager.workqueue.queue import WorkQueue

from .watches import For, Maps

ObjectT = TypeVar("ObjectT", bound=KubeObject)


class OwnerHooks(Protocol):
    """Calls that tell a reconciler about the dependents of its objects."""

    def dependent_added(self, key: str, obj: Any) -> None:  # noqa: ANN401 - any kind
        """Note that a dependent of the owner `key` was added."""

    def dependent_gone(self, key: str, obj: Any) -> None:  # noqa: ANN401 - any kind
        """Note that a dependent of the owner `key` is gone, or is being deleted."""


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


class OwnedHandler(Generic[ObjectT]):
    """Adds the keys of the owners of objects that change.

    Upstream: addPod, updatePod and deletePod of pkg/controller/replicaset, which
    upstream repeats in each controller.
    """

    def __init__(
        self,
        owners: Lister[Any],
        queue: WorkQueue,
        hooks: OwnerHooks,
        delay: float = 0.0,
        *,
        when_added: bool = True,
    ) -> None:
        """Add keys to the queue as the declaration `Owns` says."""
        self._owners = owners
        self._queue = queue
        self._hooks = hooks
        self._delay = delay
        self._when_added = when_added

    def handler(self) -> Handler[ObjectT]:
        """Return the handler, which ignores objects with owners of other kinds."""
        return Handler(
            on_add=self._added,
            on_update=self._updated,
            on_delete=self._deleted,
            owner_kind=self._owners.kind,
        )

    def _key_of_owner(self, obj: ObjectT) -> str | None:
        owner = self._owners.controller_of(obj)
        return None if owner is None else key_of(owner)

    def _enqueue(self, key: str) -> None:
        _add(self._queue, key, self._delay)

    def _added(self, obj: ObjectT) -> None:
        if is_deleting(obj):
            # After a restart an object may be terminating when it is first seen.
            self._deleted(obj)
        elif controller_of(obj) is None:
            self._orphan_changed(obj)
        elif (key := self._key_of_owner(obj)) is not None:
            self._hooks.dependent_added(key, obj)
            if self._when_added:
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
        for owner in self._owners.selecting(obj):
            self._enqueue(key_of(owner))

    def _deleted(self, obj: ObjectT) -> None:
        if (key := self._key_of_owner(obj)) is not None:
            self._hooks.dependent_gone(key, obj)
            self._enqueue(key)
