"""Lists of pods that many owners share, when this process takes over from another.

Each owner must be compared with the API server once before this process writes for it.
A list for each of 5,000 jobs in a namespace of 50,000 pods makes the API server look at
250 million pods.
"""

import asyncio
from typing import Final

from msgspec import Struct

from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.meta import resource_version_number
from controller_manager.client.client import Client

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
        """Take the client; list nothing yet."""
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
        lock = self._locks.setdefault(namespace, asyncio.Lock())
        async with lock:
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
