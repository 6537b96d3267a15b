"""The shared informer: one watch and one cache of a resource for many handlers."""

import asyncio
import itertools
import random
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, Generic, TypeVar, cast

from msgspec import Struct

from controller_manager.api.meta import (
    KubeObject,
    Resource,
    key_of,
    resource_version_number,
)
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.serializer import EventDecoder
from controller_manager.observability.defects import Defects
from controller_manager.observability.logs import Logger
from controller_manager.observability.metrics.client import InformerMetrics
from controller_manager.options.gates import (
    ATOMIC_FIFO,
    WATCH_LIST_CLIENT,
    FeatureGates,
)

from .changes import ALL_PARTS, Comparison
from .dispatch import Dispatcher, Handler, Registration, ignore
from .reflector import Reflector
from .store import Store

ObjectT = TypeVar("ObjectT", bound=KubeObject)


DEFAULT_GATES: Final = FeatureGates()
"""The feature gates that informers use by default."""

_UNHEALTHY_AFTER: Final = 300.0
"""Seconds without a successful list or watch after which an informer is unhealthy."""


_OBJECTS_PER_TURN: Final = 100
"""The number of objects that are processed before other tasks get their turn."""


class SharedInformer(Generic[ObjectT]):
    """Keeps a store equal to the server's objects, and calls handlers for changes.

    It is synced as soon as the first complete list is in the store and every handler
    has been called for its objects.

    A function that fails for one object fails for that object only; the exception is
    logged and counted. An object that breaks the transform is stored as it came. For an
    object that breaks an index the store keeps the former version, or none, and no
    handler is called: to controllers the watch seems late, and they must expect that,
    see `lacks_any`. Its next change is handled like any other.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource[ObjectT],
        *,
        gates: FeatureGates = DEFAULT_GATES,
        resync_period: float,
        rng: random.Random,
        logger: Logger,
        metrics: InformerMetrics,
        transform: Callable[[ObjectT], None] = ignore,
    ) -> None:
        """`resync_period` is in seconds, 0 for none.

        `transform` may make each object smaller before it is stored. Two gates
        concern informers: with WatchListClient the initial list is streamed by the
        watch; with AtomicFIFO a complete list replaces the store atomically.
        """
        self._replaces_atomically = gates.is_enabled(ATOMIC_FIFO)
        self._metrics = metrics
        self._received_at = 0.0
        self.resource = resource
        self._defects = Defects(logger, metrics.defect)
        comparison = Comparison(cast("type[Struct]", resource.type))
        self.store: Store[ObjectT] = Store(comparison)
        self._dispatcher: Dispatcher[ObjectT] = Dispatcher(
            comparison, self._handler_failed
        )
        self._group: asyncio.TaskGroup | None = None
        self._resync_period = resync_period
        self._logger = logger
        self._synced = asyncio.Event()
        self._resource_version = ""
        self.epoch = 0
        """The number of times that the server's resource versions have gone back."""
        self._unshown: set[str] = set()
        self._reflector = Reflector(
            client,
            resource,
            self,
            stream_lists=gates.is_enabled(WATCH_LIST_CLIENT),
            rng=rng,
            logger=logger,
            metrics=metrics,
            defects=self._defects,
            transform=transform,
        )

    def set_transform(
        self,
        transform: Callable[[ObjectT], None],
        decoder: EventDecoder[ObjectT] | None = None,
    ) -> None:
        """Set the function that makes each object smaller; call this before `run`.

        `decoder` decodes the lines of watches, if it shares parts with the function.
        Upstream: client-go's SharedInformer.SetTransform.
        """
        self._reflector.transform = transform
        self._reflector.decoder = decoder

    def problem(self) -> str | None:
        """Return why the resource cannot be read, `None` if it can.

        An informer that is synced has a problem only after five minutes, because
        watches break every day.
        """
        failure = self._reflector.failing_for(asyncio.get_running_loop().time())
        if failure is None or (self.is_synced and failure[0] < _UNHEALTHY_AFTER):
            return None
        seconds, error = failure
        return f"{self.resource.group_resource} not read for {seconds:.0f} s: {error}"

    @property
    def is_synced(self) -> bool:
        """True once the first complete list is in the store."""
        return self._synced.is_set()

    @property
    def resource_version(self) -> str:
        """The version up to which the store is complete; empty before a list."""
        return self._resource_version

    def has_reached(self, resource_version: str) -> bool:
        """Tell whether the store is at least as new as `resource_version`."""
        seen = resource_version_number(self._resource_version)
        return seen >= resource_version_number(resource_version)

    def lacks_any(self, keys: AbstractSet[str]) -> bool:
        """Tell whether the newest version of one of these objects broke an index.

        The store then lacks that version, also if the store's own version is newer: a
        controller that knows the object must not conclude that it is gone.
        """
        return not self._unshown.isdisjoint(keys)

    async def wait_for_sync(self) -> None:
        """Wait until `is_synced`."""
        await self._synced.wait()

    def add_handler(self, handler: Handler[ObjectT]) -> Registration[ObjectT]:
        """Call `handler` for all objects of the store, and for all changes from now on.

        If the store has many objects, the handler is called for them in several turns
        of the event loop; the registration says when this is complete.

        Raises ValueError if the objects lack a part on which the handler depends.
        """
        registration = Registration(handler, self.store, self._synced)
        self._dispatcher.add(registration)
        if self._group is not None and len(self.store) > _OBJECTS_PER_TURN:
            name = f"replay-{self.resource.group_resource}"
            self._group.create_task(self._replay(registration), name=name)
        else:
            while self._replay_one(registration):
                continue
        return registration

    def remove_handler(self, registration: Registration[ObjectT]) -> None:
        """Stop calling the handler of a registration."""
        self._dispatcher.remove(registration)
        registration.clear()

    async def _replay(self, registration: Registration[ObjectT]) -> None:
        for number in itertools.count(1):
            if not self._replay_one(registration):
                return
            if number % _OBJECTS_PER_TURN == 0:
                await asyncio.sleep(0)

    def _replay_one(self, registration: Registration[ObjectT]) -> bool:
        key = registration.pop_pending()
        if key is None:
            return False
        if (obj := self.store.get(key)) is not None:
            self._dispatcher.replayed(registration, obj)
        return True

    async def run(self) -> None:
        """Watch and resync until cancelled."""
        name = self.resource.group_resource
        async with asyncio.TaskGroup() as group:
            self._group = group
            group.create_task(self._reflector.run(), name=f"reflector-{name}")
            if self._resync_period > 0:
                group.create_task(self._resync(), name=f"resync-{name}")

    async def release(self) -> None:
        """Empty the store of an informer that has been stopped, over several turns.

        The memory of 100,000 objects takes 20 ms to free. Handlers are not called.
        """
        for number, key in enumerate(self.store.keys()):
            self.store.remove(key)
            if number % _OBJECTS_PER_TURN == _OBJECTS_PER_TURN - 1:
                await asyncio.sleep(0)

    async def _resync(self) -> None:
        while True:
            await asyncio.sleep(self._resync_period)
            self._logger.v(4).info(
                "Resync", resource=self.resource.group_resource, objects=len(self.store)
            )
            try:
                await self._resync_once()
            except Exception as error:  # noqa: BLE001 - it must not end the watch
                name = self.resource.group_resource
                self._defects.report("resync", error, resource=name)

    async def _resync_once(self) -> None:
        for number, obj in enumerate(self.store):
            key = key_of(obj)
            # Other tasks have run since: the object may be deleted or replaced.
            if self.store.get(key) is obj:
                self._dispatcher.updated(key, obj, obj, ALL_PARTS)
            if number % _OBJECTS_PER_TURN == _OBJECTS_PER_TURN - 1:
                await asyncio.sleep(0)

    async def replaced(
        self, objects: Mapping[str, ObjectT], resource_version: str
    ) -> None:
        """Make the store equal to a complete list (called by the reflector).

        Other tasks get their turns meanwhile. The store counts as complete only after
        the handlers have been called for all changes.
        """
        self._unshown &= objects.keys()
        # The first list needs no atomic replacement: workers wait until it is complete.
        if self._replaces_atomically and self.is_synced:
            await self._replace_in_one_turn(objects)
        else:
            await self._replace_one_by_one(objects)
        if not self.has_reached(resource_version):
            self._resource_version = resource_version
        elif resource_version != self._resource_version:
            # The server's store was restored from a backup: versions start again.
            self.epoch += 1
            self._resource_version = resource_version
        self._metrics.processed(len(objects), 0.0, len(self.store))
        self._metrics.at_version(self._resource_version)
        self._synced.set()

    async def _replace_one_by_one(self, objects: Mapping[str, ObjectT]) -> None:
        """Replace objects one by one: readers may see some old and some new objects."""
        for key in self.store.keys():  # noqa: SIM118 - a snapshot: it shrinks below
            if key not in objects and (gone := self.store.remove(key)) is not None:
                self._dispatcher.deleted(key, gone)
        for number, (key, obj) in enumerate(objects.items()):
            self._upsert(key, obj)
            if number % _OBJECTS_PER_TURN == _OBJECTS_PER_TURN - 1:
                await asyncio.sleep(0)

    async def _replace_in_one_turn(self, objects: Mapping[str, ObjectT]) -> None:
        """Replace all objects in one turn: readers see all old or all new objects."""
        different = await self._different_keys(objects)
        if len(different) > _OBJECTS_PER_TURN:
            await self._exchange(objects, different)
            return
        for key in different:
            if (obj := objects.get(key)) is not None:
                self._upsert(key, obj)
            elif (gone := self.store.remove(key)) is not None:
                self._dispatcher.deleted(key, gone)

    async def _different_keys(self, objects: Mapping[str, ObjectT]) -> list[str]:
        """Return the keys of objects that differ from the store, deleted ones first."""
        different: list[str] = []
        for number, key in enumerate(self.store.keys()):
            if key not in objects:
                different.append(key)
            if number % _OBJECTS_PER_TURN == _OBJECTS_PER_TURN - 1:
                await asyncio.sleep(0)
        for number, (key, obj) in enumerate(objects.items()):
            if self.store.get(key) != obj:
                different.append(key)
            if number % _OBJECTS_PER_TURN == _OBJECTS_PER_TURN - 1:
                await asyncio.sleep(0)
        return different

    async def _exchange(
        self, objects: Mapping[str, ObjectT], different: Sequence[str]
    ) -> None:
        """Fill a new store, exchange it with the current one, then call the handlers.

        Filling it takes several turns, and so does calling the handlers.
        """
        new_store = await self._new_store(objects, set(different))
        registrations = self._dispatcher.registrations
        before = self.store.exchange(new_store)
        for number, key in enumerate(different):
            # Pop the old objects, so that their memory is not freed in a single turn.
            old, new = before.pop(key, None), self.store.get(key)
            if new is not old:
                self._notify_difference(registrations, key, old, new)
            if number % _OBJECTS_PER_TURN == _OBJECTS_PER_TURN - 1:
                await asyncio.sleep(0)
                # A handler that was added meanwhile is called for the whole new store.
                current = self._dispatcher.registrations
                registrations = [each for each in registrations if each in current]

    async def _new_store(
        self, objects: Mapping[str, ObjectT], different: Collection[str]
    ) -> Store[ObjectT]:
        """Return a store of these objects; unchanged ones come from the current store.

        So only the objects that differ take new memory.
        """
        new_store = self.store.without_objects()
        for number, (key, obj) in enumerate(objects.items()):
            known = self.store.get(key)
            if key in different or known is None:
                if known is not None and known.metadata.uid != obj.metadata.uid:
                    known = None
                if not self._put(new_store, key, obj) and known is not None:
                    new_store.put(known, key)
            else:
                new_store.put(known, key)
            if number % _OBJECTS_PER_TURN == _OBJECTS_PER_TURN - 1:
                await asyncio.sleep(0)
        return new_store

    def _notify_difference(
        self,
        registrations: Sequence[Registration[ObjectT]],
        key: str,
        old: ObjectT | None,
        new: ObjectT | None,
    ) -> None:
        """Call handlers for one difference; another uid means another object."""
        if old is not None and new is not None and old.metadata.uid == new.metadata.uid:
            changed = self._compare(key, old, new)
            self._dispatcher.updated_for(registrations, key, old, new, changed)
            return
        if old is not None:
            self._dispatcher.deleted_for(registrations, key, old)
        if new is not None:
            self._dispatcher.added_for(registrations, new)

    def changed(self, obj: ObjectT) -> None:
        """Store a new or changed object (called by the reflector)."""
        self._upsert(key_of(obj), obj)

    def deleted(self, obj: ObjectT) -> None:
        """Remove a deleted object (called by the reflector)."""
        key = key_of(obj)
        self._unshown.discard(key)
        if self.store.remove(key) is not None:
            self._dispatcher.deleted(key, obj)

    def advanced(self, resource_version: str) -> None:
        """Set the version of the store (called by the reflector)."""
        self._resource_version = resource_version

    def receiving(self, events: int) -> None:
        """Measure the events that have arrived (called by the reflector)."""
        self._metrics.queued(events)
        # Real time, not the clock's (virtual) time: this measures processing time.
        self._received_at = time.perf_counter()

    def received(self, events: int) -> None:
        """Measure the events that are in the store now (called by the reflector)."""
        self._metrics.queued(0)
        if events:
            seconds = time.perf_counter() - self._received_at
            self._metrics.processed(events, seconds, len(self.store))
            self._metrics.at_version(self._resource_version)

    def _upsert(self, key: str, obj: ObjectT) -> None:
        old = self.store.get(key)
        if old is not None and old.metadata.uid != obj.metadata.uid:
            # The watch missed that it was deleted and created again: two objects.
            self.store.remove(key)
            self._dispatcher.deleted(key, old)
            old = None
        if old is None:
            if self._put(self.store, key, obj):
                self._dispatcher.added(obj)
        elif old != obj:
            # The version may be the same: an API server that was upgraded may return
            # fields that the old one did not have.
            changed = self._compare(key, old, obj)
            if self._put(self.store, key, obj, changed):
                self._dispatcher.updated(key, old, obj, changed)

    def _compare(self, key: str, old: ObjectT, new: ObjectT) -> int:
        """Return the changed parts; all of them if the two cannot be compared."""
        try:
            return self.store.comparison.changed(old, new)
        except Exception as error:  # noqa: BLE001 - it concerns this object only
            name = self.resource.group_resource
            self._defects.report("index", error, resource=name, object=key)
            return ALL_PARTS

    def _put(
        self,
        store: Store[ObjectT],
        key: str,
        obj: ObjectT,
        changed: int | None = None,
    ) -> bool:
        """Put an object into a store; tell whether its indexes could take it."""
        try:
            store.put(obj, key, changed)
        except Exception as error:  # noqa: BLE001 - it concerns this object only
            name = self.resource.group_resource
            self._defects.report("index", error, resource=name, object=key)
            self._unshown.add(key)
            return False
        self._unshown.discard(key)
        return True

    def reread(self, obj: ObjectT) -> bool:
        """Compare an object that was just read; tell whether the cache is as new.

        If it has the cached version, it replaces the cached object, because that may
        come from an API server of another Kubernetes version. Handlers are not called.
        """
        key = key_of(obj)
        old = self.store.get(key)
        if old is None or (
            (old.metadata.uid, old.metadata.resource_version)
            != (obj.metadata.uid, obj.metadata.resource_version)
        ):
            return False
        return self._put(self.store, key, obj)

    def _handler_failed(
        self,
        function: Callable[..., None],
        error: Exception,
        obj: ObjectT,
    ) -> None:
        self._defects.report(
            "handler",
            error,
            getattr(function, "__qualname__", ""),
            resource=self.resource.group_resource,
            object=key_of(obj),
        )
