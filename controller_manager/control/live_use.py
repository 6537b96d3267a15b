"""Live lists of the users of objects that a protection controller wants to release.

A protection controller reads them before it removes the finalizer of an object: a cache
may not show a new user yet.
"""

from collections.abc import AsyncGenerator, Callable, Iterable
from typing import Any, Final, Generic, NamedTuple, TypeVar

from controller_manager.api.meta import KubeObject, key_of, resource_version_number
from controller_manager.api.resource import Resource
from controller_manager.clock import Clock
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import SyncError

LONGEST_USE: Final = 5.0
"""Seconds after the end of a list in which its result may be used.

This is enough for all objects that are deleted at the same time, also if the list
itself takes longer. After a stalled watch, or a pause of the process, no finalizer is
removed because of an old list.
"""

ObjectT = TypeVar("ObjectT", bound=KubeObject)
FoundT = TypeVar("FoundT")

Waiting = Callable[[str], Iterable[KubeObject]]
"""Returns the cached objects of a namespace that wait for their finalizer's removal.

For cluster-scoped objects the namespace is "".
"""


class Users(NamedTuple):
    """The objects of a resource, with a function that returns the keys they use."""

    resource: Resource[Any]
    used_by: Callable[[Any], Iterable[str]]


class SharedLists(Generic[FoundT]):
    """The result of the last list of each namespace, for the objects that it serves.

    The queue takes turns among namespaces, so the lists of several are kept. A list is
    dropped once no object of its namespace waits any more. It serves for `LONGEST_USE`.
    """

    def __init__(self, waiting: Waiting, clock: Clock) -> None:
        """Take the function that returns the waiting objects; start without results."""
        self._waiting = waiting
        self._clock = clock
        self._found: dict[str, tuple[float, frozenset[str], FoundT]] = {}
        """By namespace: until when a list serves, for which uids, and its result."""

    def serving(self, obj: KubeObject) -> frozenset[str]:
        """Return the uids of the objects that a list serves which begins now."""
        return uids_of((obj, *self._waiting(obj.metadata.namespace)))

    def found_for(self, obj: KubeObject) -> FoundT | None:
        """Return the result of a list that serves the object, `None` without one."""
        known = self._found.get(obj.metadata.namespace)
        if known is None:
            return None
        ends, served, found = known
        is_served = obj.metadata.uid in served and self._clock.monotonic() < ends
        return found if is_served else None

    def keep(self, namespace: str, served: frozenset[str], found: FoundT) -> None:
        """Keep the result of a list that has just ended; drop those no longer needed.

        No object waits for these.
        """
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
    lists began: an object that is being deleted gets no new users. The versions of an
    object and of a list of other objects say nothing about that, because each resource
    may be in an etcd of its own (``--etcd-servers-overrides``). The lists serve for
    `LONGEST_USE`. For cluster-scoped objects the users of all namespaces are listed.
    """

    def __init__(
        self, context: ControllerContext, waiting: Waiting, *users: Users
    ) -> None:
        """Take the context of a controller that watches the users; list nothing yet."""
        self._context = context
        self._users = users
        self._lists: SharedLists[frozenset[str]] = SharedLists(waiting, context.clock)

    def forget(self) -> None:
        """Drop the results of the last lists."""
        self._lists.forget()

    async def is_used(self, obj: KubeObject) -> bool:
        """Tell whether something uses an object that is being deleted.

        Raises SyncError if the API server answers with lists that are older than the
        caches.
        """
        key, known = key_of(obj), self._lists.found_for(obj)
        if known is not None and key not in known:
            return False
        namespace, served = obj.metadata.namespace, self._lists.serving(obj)
        used: set[str] = set()
        for resource, used_by in self._users:
            async for each in listed(self._context, resource, namespace):
                used.update(used_by(each))
        self._lists.keep(namespace, served, frozenset(used))
        return key in used


def uids_of(objects: Iterable[KubeObject]) -> frozenset[str]:
    """Return the uids of objects."""
    return frozenset(each.metadata.uid for each in objects)


async def listed(
    context: ControllerContext, resource: Resource[ObjectT], namespace: str
) -> AsyncGenerator[ObjectT, None]:
    """Yield the objects of a namespace, or of all (""), as the API server has them.

    The controller watches the resource. Raises SyncError at the end if the list is
    older than the cache, as one from a cache of a proxy may be.
    """
    cached = context.informers.informer(resource).resource_version
    version = ""
    async for page in context.client.list_all(resource, namespace):
        version = page.resource_version
        for each in page.items:
            yield each
    if resource_version_number(version) < resource_version_number(cached):
        msg = f"the API server's {resource.plural} are older than those of the cache"
        raise SyncError(msg)
