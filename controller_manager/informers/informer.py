"""One watch, one cache, many handlers."""

import asyncio
import itertools
import random
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from controller_manager.api.meta import (
    KubeObject,
    key_of,
    resource_version_number,
)
from controller_manager.api.resource import Resource
from controller_manager.client.client import Client
from controller_manager.informers.reflector import Reflector
from controller_manager.informers.store import Store
from controller_manager.observability.logs import Logger
from controller_manager.observability.metrics import InformerMetrics
from controller_manager.options.gates import (
    ATOMIC_FIFO,
    WATCH_LIST_CLIENT,
    FeatureGates,
)

ObjectT = TypeVar("ObjectT", bound=KubeObject)


DEFAULT_GATES: Final = FeatureGates()
"""What informers are made with unless gates are given."""

_PATIENCE: Final = 300.0
"""Seconds without a successful read after which an informer has a problem."""


_TURN: Final = 100
"""Objects that are gone through before others get their turn."""


def _ignore(*_: object) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Handler(Generic[ObjectT]):
    """What a controller does about changes: turn an object into keys.

    Handlers run between two events, in the order in which they were added,
    after the store has changed; they must not block. `on_update` also gets
    periodic resyncs, as an update from an object to itself. `on_delete` gets
    the last state that is known, also when the deletion itself was missed.
    """

    on_add: Callable[[ObjectT], None] = _ignore
    on_update: Callable[[ObjectT, ObjectT], None] = _ignore
    on_delete: Callable[[ObjectT], None] = _ignore


class Registration(Generic[ObjectT]):
    """A handler of an informer, and what it has yet to be told.

    Upstream: client-go's ResourceEventHandlerRegistration, with HasSynced.
    """

    def __init__(
        self, handler: Handler[ObjectT], store: Store[ObjectT], synced: asyncio.Event
    ) -> None:
        """Have all that is in the store to be told; made by the informer."""
        self.handler = handler
        # Taken from the end, so that the oldest object comes first.
        self._pending = dict.fromkeys(reversed(store.keys()))
        self._informer_synced = synced
        self._told = asyncio.Event()
        self._note()

    def _note(self) -> None:
        if not self._pending:
            self._told.set()

    @property
    def is_synced(self) -> bool:
        """Whether the handler has been told of the first complete list."""
        return self._informer_synced.is_set() and self._told.is_set()

    async def wait_for_sync(self) -> None:
        """Wait until `is_synced`."""
        await self._informer_synced.wait()
        await self._told.wait()

    def pop(self) -> str | None:
        """Return the key of an object that is to be told now; `None` for none."""
        if not self._pending:
            return None
        key, _ = self._pending.popitem()
        self._note()
        return key

    def take(self, key: str) -> bool:
        """Tell whether the object of `key` was yet to be told; it is no longer."""
        if key not in self._pending:
            return False
        del self._pending[key]
        self._note()
        return True

    def clear(self) -> None:
        """Have nothing more to be told."""
        self._pending.clear()
        self._note()


class SharedInformer(Generic[ObjectT]):
    """Keeps a store equal to the server's objects and tells handlers.

    It is synced once the first complete list is in the store and its adds have
    been handed to every handler.
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
        transform: Callable[[ObjectT], None] = _ignore,
    ) -> None:
        """Take what to watch; `resync_period` is in seconds, 0 for none.

        `transform` may make each object smaller before it is stored. Two gates
        concern informers: with WatchListClient the watch is asked for the initial
        list; with AtomicFIFO a complete list replaces the store in one moment.
        """
        self._replace_at_once = gates.is_enabled(ATOMIC_FIFO)
        self._metrics = metrics
        self._received_at = 0.0
        self.resource = resource
        self.store: Store[ObjectT] = Store()
        self._registrations: list[Registration[ObjectT]] = []
        self._group: asyncio.TaskGroup | None = None
        self._resync_period = resync_period
        self._logger = logger
        self._synced = asyncio.Event()
        self._resource_version = ""
        self.epoch = 0
        """Counts how often the server's versions went back."""
        self._reflector = Reflector(
            client,
            resource,
            self,
            stream_lists=gates.is_enabled(WATCH_LIST_CLIENT),
            rng=rng,
            logger=logger,
            metrics=metrics,
            transform=transform,
        )

    def set_transform(self, transform: Callable[[ObjectT], None]) -> None:
        """Have `transform` make each object smaller; must be set before `run`.

        Upstream: client-go's SharedInformer.SetTransform.
        """
        self._reflector.transform = transform

    def problem(self) -> str | None:
        """Return why nothing can be read, `None` if that is possible.

        Of one that is synced only what has lasted for five minutes counts: watches
        break every day.
        """
        trouble = self._reflector.trouble_for(asyncio.get_running_loop().time())
        if trouble is None or (self.is_synced and trouble[0] < _PATIENCE):
            return None
        seconds, error = trouble
        return f"{self.resource.group_resource} not read for {seconds:.0f} s: {error}"

    @property
    def is_synced(self) -> bool:
        """Whether the first complete list has been handed out."""
        return self._synced.is_set()

    @property
    def resource_version(self) -> str:
        """The version up to which the store is complete, empty before that."""
        return self._resource_version

    def has_reached(self, resource_version: str) -> bool:
        """Tell whether the store is at least as new as `resource_version`."""
        seen = resource_version_number(self._resource_version)
        return seen >= resource_version_number(resource_version)

    async def wait_for_sync(self) -> None:
        """Wait until `is_synced`."""
        await self._synced.wait()

    def add_handler(self, handler: Handler[ObjectT]) -> Registration[ObjectT]:
        """Tell `handler` of all objects, now and from now on.

        Of many objects that are there already it is told little by little, so that
        others get their turns; the registration says when it has been told of all.
        """
        registration = Registration(handler, self.store, self._synced)
        self._registrations.append(registration)
        if self._group is not None and len(self.store) > _TURN:
            name = f"replay-{self.resource.group_resource}"
            self._group.create_task(self._replay(registration), name=name)
        else:
            while self._replay_one(registration):
                continue
        return registration

    def remove_handler(self, registration: Registration[ObjectT]) -> None:
        """Tell the handler of a registration no more."""
        self._registrations.remove(registration)
        registration.clear()

    async def _replay(self, registration: Registration[ObjectT]) -> None:
        for number in itertools.count(1):
            if not self._replay_one(registration):
                return
            if number % _TURN == 0:
                await asyncio.sleep(0)

    def _replay_one(self, registration: Registration[ObjectT]) -> bool:
        """Tell of one more object; tell if there was one."""
        key = registration.pop()
        if key is None:
            return False
        if (obj := self.store.get(key)) is not None:
            self._call(registration.handler.on_add, obj)
        return True

    async def run(self) -> None:
        """Watch and resync until cancelled."""
        name = self.resource.group_resource
        async with asyncio.TaskGroup() as group:
            self._group = group
            group.create_task(self._reflector.run(), name=f"reflector-{name}")
            if self._resync_period > 0:
                group.create_task(self._resync(), name=f"resync-{name}")

    async def _resync(self) -> None:
        while True:
            await asyncio.sleep(self._resync_period)
            self._logger.v(4).info(
                "Resync", resource=self.resource.group_resource, objects=len(self.store)
            )
            for number, obj in enumerate(self.store):
                key = key_of(obj)
                # Others had their turns: it may be gone, or another, by now.
                if self.store.get(key) is obj:
                    self._tell_update(self._registrations, key, obj, obj)
                if number % _TURN == _TURN - 1:
                    await asyncio.sleep(0)

    async def replaced(
        self, objects: Mapping[str, ObjectT], resource_version: str
    ) -> None:
        """Make the store equal to a complete list (called by the reflector).

        Others get their turns meanwhile. The store is said to be complete only
        when handlers have been told of everything.
        """
        # Nobody acts on the first list before it is complete.
        if self._replace_at_once and self.is_synced:
            await self._replace_in_one_turn(objects)
        else:
            await self._replace_one_by_one(objects)
        if not self.has_reached(resource_version):
            self._resource_version = resource_version
        elif resource_version != self._resource_version:
            # The store was restored from a backup: versions begin anew.
            self.epoch += 1
            self._resource_version = resource_version
        self._metrics.processed(len(objects), 0.0, len(self.store))
        self._synced.set()

    async def _replace_one_by_one(self, objects: Mapping[str, ObjectT]) -> None:
        """Change one object after the other: others see some old, some new."""
        for key in self.store.keys():  # noqa: SIM118 - a snapshot: it shrinks below
            if key not in objects and (gone := self.store.remove(key)) is not None:
                self._tell_delete(self._registrations, key, gone)
        for number, (key, obj) in enumerate(objects.items()):
            self._upsert(key, obj)
            if number % _TURN == _TURN - 1:
                await asyncio.sleep(0)

    async def _replace_in_one_turn(self, objects: Mapping[str, ObjectT]) -> None:
        """Change all objects between two turns: others see all old or all new."""
        different = await self._differing(objects)
        if len(different) > _TURN:
            await self._exchange(objects, different)
            return
        for key in different:
            if (obj := objects.get(key)) is not None:
                self._upsert(key, obj)
            elif (gone := self.store.remove(key)) is not None:
                self._tell_delete(self._registrations, key, gone)

    async def _differing(self, objects: Mapping[str, ObjectT]) -> list[str]:
        """Return the keys where the store differs, of what is gone first."""
        different: list[str] = []
        for number, key in enumerate(self.store.keys()):
            if key not in objects:
                different.append(key)
            if number % _TURN == _TURN - 1:
                await asyncio.sleep(0)
        for number, (key, obj) in enumerate(objects.items()):
            if self.store.get(key) != obj:
                different.append(key)
            if number % _TURN == _TURN - 1:
                await asyncio.sleep(0)
        return different

    async def _exchange(
        self, objects: Mapping[str, ObjectT], different: Sequence[str]
    ) -> None:
        """Fill a second store, put it in place of the first, then tell handlers.

        It takes more than a turn to fill it, and more than a turn to tell them.
        """
        fresh = await self._filled(objects, set(different))
        told = list(self._registrations)
        before = self.store.exchange(fresh)
        for number, key in enumerate(different):
            # Taken out, so that not all of it is freed in one turn in the end.
            old = before.pop(key, None)
            self._tell_difference(told, key, old, objects.get(key))
            if number % _TURN == _TURN - 1:
                await asyncio.sleep(0)
                # A handler that came meanwhile hears of the new store as it is.
                told = [each for each in told if each in self._registrations]

    async def _filled(
        self, objects: Mapping[str, ObjectT], different: Collection[str]
    ) -> Store[ObjectT]:
        """Return a store of these objects; of what is the same, of our own.

        So only what is different takes new memory.
        """
        fresh = self.store.without_objects()
        for number, (key, obj) in enumerate(objects.items()):
            own = None if key in different else self.store.get(key)
            fresh.put(obj if own is None else own, key)
            if number % _TURN == _TURN - 1:
                await asyncio.sleep(0)
        return fresh

    def _tell_difference(
        self,
        told: Sequence[Registration[ObjectT]],
        key: str,
        old: ObjectT | None,
        new: ObjectT | None,
    ) -> None:
        """Tell of what a list has changed; another uid is another object."""
        if old is not None and new is not None and old.metadata.uid == new.metadata.uid:
            self._tell_update(told, key, old, new)
            return
        if old is not None:
            self._tell_delete(told, key, old)
        if new is not None:
            self._tell_add(told, new)

    def changed(self, obj: ObjectT) -> None:
        """Store an object that is new or changed (called by the reflector)."""
        self._upsert(key_of(obj), obj)

    def deleted(self, obj: ObjectT) -> None:
        """Drop an object that is gone (called by the reflector)."""
        key = key_of(obj)
        if self.store.remove(key) is not None:
            self._tell_delete(self._registrations, key, obj)

    def advanced(self, resource_version: str) -> None:
        """Note how complete the store is (called by the reflector)."""
        self._resource_version = resource_version

    def receiving(self, events: int) -> None:
        """Note that events have come (called by the reflector)."""
        self._metrics.queued(events)
        # The machine's time, not the clock's: what is measured is our own work.
        self._received_at = time.perf_counter()

    def received(self, events: int) -> None:
        """Note that they are in the store (called by the reflector)."""
        self._metrics.queued(0)
        if events:
            seconds = time.perf_counter() - self._received_at
            self._metrics.processed(events, seconds, len(self.store))

    def _upsert(self, key: str, obj: ObjectT) -> None:
        old = self.store.get(key)
        if old is None:
            self.store.put(obj, key)
            self._tell_add(self._registrations, obj)
        elif old.metadata.uid != obj.metadata.uid:
            # Deleted and created again while nobody watched: two objects.
            self.store.remove(key)
            self._tell_delete(self._registrations, key, old)
            self.store.put(obj, key)
            self._tell_add(self._registrations, obj)
        elif old != obj:
            # Also of the same version: after its upgrade an API server shows
            # fields that it did not know when this object was stored.
            self.store.put(obj, key)
            self._tell_update(self._registrations, key, old, obj)

    def reread(self, obj: ObjectT) -> bool:
        """Take an object that was just read; tell whether the cache is as new as it.

        Of the version that is cached it replaces what is cached, which an API
        server of another version may have shown. Handlers are not told.
        """
        key = key_of(obj)
        old = self.store.get(key)
        if old is None or (
            (old.metadata.uid, old.metadata.resource_version)
            != (obj.metadata.uid, obj.metadata.resource_version)
        ):
            return False
        self.store.put(obj, key)
        return True

    def _tell_add(self, told: Sequence[Registration[ObjectT]], obj: ObjectT) -> None:
        for each in told:
            self._call(each.handler.on_add, obj)

    def _tell_update(
        self,
        told: Sequence[Registration[ObjectT]],
        key: str,
        old: ObjectT,
        new: ObjectT,
    ) -> None:
        for each in told:
            if each.take(key):
                self._call(each.handler.on_add, new)
            else:
                self._call(each.handler.on_update, old, new)

    def _tell_delete(
        self, told: Sequence[Registration[ObjectT]], key: str, obj: ObjectT
    ) -> None:
        for each in told:
            if not each.take(key):
                self._call(each.handler.on_delete, obj)

    def _call(self, function: Callable[..., None], *objects: ObjectT) -> None:
        try:
            function(*objects)
        except Exception as error:
            self._logger.error(
                "Event handler failed",
                resource=self.resource.group_resource,
                object=key_of(objects[-1]),
                err=repr(error),
                exc_info=error,
            )
