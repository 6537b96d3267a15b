"""A finalizer that keeps an object while something uses it.

Before it is removed, the possible users are listed from the API server: a cache may not
show yet that one of them has begun to use the object. Upstream:
pkg/controller/util/protectionutil.
"""

from collections.abc import AsyncGenerator, Callable, Iterable
from functools import partial
from typing import Any, ClassVar, Final, Generic, NamedTuple, TypeVar

from msgspec.structs import replace

from controller_manager.api import meta
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.errors import NotFound, is_about
from controller_manager.clock import Clock
from controller_manager.informers.store import Index
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import SyncError
from controller_manager.runtime.reconciler import Reconciler

CompleteT = TypeVar("CompleteT", bound=meta.CompleteObject)
ObjectT = TypeVar("ObjectT", bound=meta.KubeObject)
FoundT = TypeVar("FoundT")

LONGEST_USE: Final = 5.0
"""Seconds after the end of a list in which its result may be used.

After a stalled watch, or a pause of the process, no old list removes a finalizer.
"""

Waiting = Callable[[str], Iterable[meta.KubeObject]]
"""Returns the cached objects of a namespace, or of all (""), that wait for removal."""


class Protection:
    """The finalizer of one kind of object, from its creation until nothing uses it."""

    def __init__(self, finalizer: str) -> None:
        self.finalizer = finalizer

    def holds(self, obj: meta.KubeObject) -> bool:
        """Tell whether a deleted object has the finalizer (IsDeletionCandidate)."""
        return meta.is_deleting(obj) and self.protects(obj)

    @property
    def waiting(self) -> Index:
        """An index of the objects that wait for it, by their namespace."""
        return Index(
            f"deleted with {self.finalizer}",
            lambda obj: (obj.metadata.namespace,) if self.holds(obj) else (),
            lambda old, new: self.holds(old) == self.holds(new),
        )

    def protects(self, obj: meta.KubeObject) -> bool:
        """Tell whether an object has the finalizer."""
        return self.finalizer in (obj.metadata.finalizers or ())

    def is_settled(self, obj: meta.KubeObject) -> bool:
        """Tell whether an object needs no change of its finalizer, used or not."""
        return meta.is_deleting(obj) != self.protects(obj)

    def finalizers_of(self, obj: meta.KubeObject) -> tuple[str, ...]:
        """Return the finalizers of an unused object after the change; others stay."""
        others = obj.metadata.finalizers or ()
        if not meta.is_deleting(obj):
            return others if self.protects(obj) else (*others, self.finalizer)
        return tuple(each for each in others if each != self.finalizer)

    async def settle(
        self, client: Client, resource: meta.Resource[CompleteT], obj: CompleteT
    ) -> None:
        """Give an object its finalizer, or take it from a deleted one that is not used.

        Raises Conflict if the stored object is not the same any more as `obj`: then it
        may be used.
        """
        metadata = replace(obj.metadata, finalizers=self.finalizers_of(obj) or None)
        try:
            await client.update_for_metadata(resource, replace(obj, metadata=metadata))
        except NotFound as error:
            if not is_about(error, obj.metadata.name):
                raise


class Users(NamedTuple):
    """The objects of a resource, with a function that returns the keys they use."""

    resource: meta.Resource[Any]
    used_by: Callable[[Any], Iterable[str]]


class SharedLists(Generic[FoundT]):
    """The result of the last list of each namespace, for the objects that it serves.

    A list is dropped once no object of its namespace waits. It serves `LONGEST_USE`.
    """

    def __init__(self, waiting: Waiting, clock: Clock) -> None:
        self._waiting = waiting
        self._clock = clock
        self._found: dict[str, tuple[float, frozenset[str], FoundT]] = {}
        """By namespace: until when a list serves, for which uids, and its result."""

    def serving(self, obj: meta.KubeObject) -> frozenset[str]:
        """Return the uids of the objects that a list serves which begins now."""
        waiting = (obj, *self._waiting(obj.metadata.namespace))
        return frozenset(each.metadata.uid for each in waiting)

    def found_for(self, obj: meta.KubeObject) -> FoundT | None:
        """Return the result of a list that serves the object, `None` without one."""
        known = self._found.get(obj.metadata.namespace)
        if known is None:
            return None
        ends, served, found = known
        is_served = obj.metadata.uid in served and self._clock.monotonic() < ends
        return found if is_served else None

    def keep(self, namespace: str, served: frozenset[str], found: FoundT) -> None:
        """Keep the result of a list that has just ended; drop those not needed."""
        for each in list(self._found):
            if not any(True for _ in self._waiting(each)):
                del self._found[each]
        ends = self._clock.monotonic() + LONGEST_USE
        self._found[namespace] = (ends, served, found)

    def forget(self) -> None:
        """Drop the results of all lists."""
        self._found.clear()


class LiveUse:
    """The objects in use, by lists of the possible users in their namespace.

    The lists serve all objects of a namespace whose deletion the cache showed when the
    lists began: an object that is being deleted gets no new users. Versions of two
    resources cannot be compared: each may be in an etcd of its own.
    """

    def __init__(
        self, context: ControllerContext, waiting: Waiting, *users: Users
    ) -> None:
        self._context = context
        self._users = users
        self._lists: SharedLists[frozenset[str]] = SharedLists(waiting, context.clock)

    def forget(self) -> None:
        """Drop the results of the last lists."""
        self._lists.forget()

    async def is_used(self, obj: meta.KubeObject) -> bool:
        """Tell whether something uses a deleted object; SyncError for an old list."""
        key, known = meta.key_of(obj), self._lists.found_for(obj)
        if known is not None and key not in known:
            return False
        namespace, served = obj.metadata.namespace, self._lists.serving(obj)
        used: set[str] = set()
        for resource, used_by in self._users:
            async for each in listed(self._context, resource, namespace):
                used.update(used_by(each))
        self._lists.keep(namespace, served, frozenset(used))
        return key in used


async def listed(
    context: ControllerContext, resource: meta.Resource[ObjectT], namespace: str
) -> AsyncGenerator[ObjectT, None]:
    """Yield the objects of a namespace, or of all (""), as the API server has them.

    Raises SyncError at the end if the list is older than the cache of the controller,
    as one from a cache of a proxy may be.
    """
    cached = context.informers.informer(resource).resource_version
    version = ""
    async for page in context.client.list_all(resource, namespace):
        version = page.resource_version
        for each in page.items:
            yield each
    if meta.resource_version_number(version) < meta.resource_version_number(cached):
        msg = f"the API server's {resource.plural} are older than those of the cache"
        raise SyncError(msg)


class LiveProtectionReconciler(Reconciler[CompleteT]):
    """Has the lists of the users of deleted objects; a subclass watches its `users`."""

    protection: ClassVar[Protection]
    """The finalizer."""

    users: ClassVar[tuple[Users, ...]]
    """The resources whose objects may use a protected object."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        index = self.protection.waiting
        waiting = context.lister(self.resource, index)
        self._live = LiveUse(context, partial(waiting.by_index, index), *self.users)

    async def check_unused(self, obj: CompleteT) -> None:
        """Raise SyncError if the API server shows that a deleted object is in use.

        No cache shows the use, nor perhaps its end. So the key must be retried.
        """
        is_used = await self._live.is_used(obj)
        if not len(self.queue):
            self._live.forget()
        if is_used:
            kind = self.resource.kind
            msg = f"the {kind} {meta.key_of(obj)} is in use, and no cache shows it"
            raise SyncError(msg)
