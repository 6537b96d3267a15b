"""Reads an owner and its pods from the API server when a cache cannot be trusted."""

from typing import Generic, TypeVar

from controller_manager.api.core.v1 import PODS
from controller_manager.api.meta import (
    CompleteObject,
    key_of,
    labels_of,
    resource_version_number,
)
from controller_manager.api.resource import Resource
from controller_manager.api.selectors import Selector, format_selector
from controller_manager.api.workloads import selector_of
from controller_manager.client.client import Client, ListOptions
from controller_manager.client.errors import NotFound, is_about
from controller_manager.informers.lister import Lister
from controller_manager.runtime.consistency import ConsistencyStore

from .takeover_lists import StoredPods, TakeoverLists

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
        metadata = owner.metadata
        try:
            stored = await self._client.get(
                self._resource, metadata.namespace, metadata.name
            )
        except NotFound as error:
            if is_about(error, metadata.name):
                self.mark_gone(owner)
            return
        if stored.metadata.uid != metadata.uid:
            self.mark_gone(owner)
        self._consistency.record(key_of(owner), self._resource, stored)

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
