"""Reads from the API server when a cache cannot be trusted.

An owner and its pods; lists of pods that many owners share, when this process takes
over from another; one object, where one cache may be older than another.

Each owner must be compared with the API server once before this process writes for it.
A list for each of 5,000 jobs in a namespace of 50,000 pods makes the API server look at
250 million pods.
"""

import asyncio
from typing import Final, Generic, TypeVar

from msgspec import Struct

from controller_manager.api.apps.v1 import selector_of
from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.meta import (
    CompleteObject,
    KubeObject,
    Resource,
    key_of,
    labels_of,
    resource_version_number,
)
from controller_manager.api.selectors import Selector, format_selector
from controller_manager.client.rest.client import Client, ListOptions
from controller_manager.client.rest.errors import Conflict, NotFound, is_about
from controller_manager.informers.lister import Lister
from controller_manager.runtime.consistency import ConsistencyStore

_OWN_LISTS: Final = 8
"""The first owners of a namespace, up to this number, have a list of their own."""

_KEPT: Final = 60.0
"""Seconds for which a list of a namespace serves its owners."""


class StoredPods(Struct, frozen=True):
    """The pods that the API server had: their uids, and the version of the list.

    `newest` is the one that was changed last, `None` without any pod.
    """

    uids: frozenset[str]
    version: int
    newest: Pod | None = None

    def lacks(self, pod: Pod) -> bool:
        """Tell whether a cached pod was gone before the list.

        A pod that has changed since, or that came since, is there.
        """
        if pod.metadata.uid in self.uids:
            return False
        return resource_version_number(pod.metadata.resource_version) <= self.version


class TakeoverLists:
    """Lists all pods of a namespace once, if many of its owners have to be compared.

    A list that began after this process started to lead shows all that a former leader
    has written, so it serves every owner.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._asked: dict[str, int] = {}
        self._lists: dict[str, StoredPods] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    def start_leading(self) -> None:
        """Drop the lists that are older than the beginning of this leadership."""
        self._asked.clear()
        self._lists.clear()

    async def shared(self, namespace: str) -> StoredPods | None:
        """Return the pods of a namespace, `None` for the first few owners there.

        Raises what the client raises.
        """
        self._asked[namespace] = self._asked.get(namespace, 0) + 1
        if self._asked[namespace] == 1:
            loop = asyncio.get_running_loop()
            loop.call_later(_KEPT, self._forget, namespace)
        if self._asked[namespace] <= _OWN_LISTS:
            return None
        async with self._locks.setdefault(namespace, asyncio.Lock()):
            if namespace not in self._lists:
                self._lists[namespace] = await self._list(namespace)
            return self._lists[namespace]

    def _forget(self, namespace: str) -> None:
        self._asked.pop(namespace, None)
        self._lists.pop(namespace, None)
        if namespace in self._locks and not self._locks[namespace].locked():
            del self._locks[namespace]

    async def _list(self, namespace: str) -> StoredPods:
        uids: set[str] = set()
        version, last, newest = "", -1, None
        async for page in self._client.list_all(PODS, namespace):
            version = page.resource_version
            for pod in page.items:
                uids.add(pod.metadata.uid)
                number = resource_version_number(pod.metadata.resource_version)
                if number > last:
                    last, newest = number, pod
        return StoredPods(frozenset(uids), resource_version_number(version), newest)


OwnerT = TypeVar("OwnerT", bound=CompleteObject)


class OwnerReads(Generic[OwnerT]):
    """Reads stored owners and pods, and lets keys wait until the caches show them.

    It knows the owners that are gone there but still cached, until the cache shows it.
    """

    def __init__(
        self,
        client: Client,
        owners: Resource[OwnerT],
        lister: Lister[OwnerT],
        consistency: ConsistencyStore,
    ) -> None:
        self._client = client
        self._resource = owners
        self._lister = lister
        self._consistency = consistency
        self._takeover_lists = TakeoverLists(client)
        self._gone: dict[str, str] = {}
        """The uid of each owner that is gone, and its version that is cached."""

    def start_leading(self) -> None:
        """Note that this process leads from now on."""
        self._takeover_lists.start_leading()

    def is_known_gone(self, owner: OwnerT) -> bool:
        """Tell whether the API server has said that this cached owner is gone."""
        metadata = owner.metadata
        return self._gone.get(metadata.uid) == metadata.resource_version

    def forget(self, owner: OwnerT) -> None:
        """Drop an owner whose deletion the cache shows."""
        self._gone.pop(owner.metadata.uid, None)

    def mark_gone(self, owner: OwnerT) -> None:
        """Note that an owner is gone, so that it is not synced while it is cached.

        Otherwise pods would be created for it as long as the cache is stale, and the
        garbage collector would delete them.
        """
        cached = self._lister.by_key(key_of(owner))
        if cached is not None and cached.metadata.uid == owner.metadata.uid:
            self._gone[owner.metadata.uid] = cached.metadata.resource_version

    async def wait_for_cache(self, owner: OwnerT) -> None:
        """Let the key of an owner wait until the cache shows the stored version."""
        metadata, name = owner.metadata, owner.metadata.name
        try:
            stored = await self._client.get(self._resource, metadata.namespace, name)
        except NotFound as error:
            if is_about(error, name):
                self.mark_gone(owner)
            return
        if stored.metadata.uid != metadata.uid:
            self.mark_gone(owner)
        self._consistency.record(key_of(owner), self._resource, stored)

    async def update_status(self, owner: OwnerT) -> bool:
        """Write the status of an owner; tell whether the owner still exists.

        Raises Conflict if the owner has changed: then its key waits for the cache.
        """
        try:
            await self._client.update_for_metadata(self._resource, owner, "status")
        except NotFound as error:
            if not is_about(error, owner.metadata.name):
                raise
            self.mark_gone(owner)
            return False
        except Conflict:
            await self.wait_for_cache(owner)
            raise
        return True

    async def wait_for_all_caches(
        self, owner: OwnerT, selector: Selector, *, is_takeover: bool = False
    ) -> StoredPods:
        """Let the key wait until the caches show the stored owner and its pods.

        The pods that exist show the result of every earlier write, also of one that
        got no response or that a former leader sent. In the latter case, `is_takeover`,
        many owners of a namespace share a list of its pods, and wait for the newest of
        them. Returns the pods that were listed. Raises NotFound if the owner is gone,
        and what the client raises.
        """
        key, namespace = key_of(owner), owner.metadata.namespace
        stored = await self._client.get(self._resource, namespace, owner.metadata.name)
        self._consistency.record(key, self._resource, stored)
        shared = await self._takeover_lists.shared(namespace) if is_takeover else None
        if shared is not None:
            if shared.newest is not None:
                self._consistency.record(key, PODS, shared.newest)
            return shared
        options = ListOptions(label_selector=format_selector(selector_of(owner)))
        uids, version = set(), ""
        async for page in self._client.list_all(PODS, namespace, options):
            version = page.resource_version
            for pod in page.items:
                if selector.matches(labels_of(pod)):
                    self._consistency.record(key, PODS, pod)
                    uids.add(pod.metadata.uid)
        return StoredPods(frozenset(uids), resource_version_number(version))


ReadT = TypeVar("ReadT", bound=KubeObject)


async def live(
    client: Client, resource: Resource[ReadT], namespace: str, name: str
) -> ReadT | None:
    """Return an object as the API server has it, `None` if it does not exist.

    Raises NotFound if something else does not exist, such as the resource itself. Other
    failures raise the errors of the client.
    """
    try:
        return await client.get(resource, namespace, name)
    except NotFound as error:
        if not is_about(error, name):
            raise
        return None
