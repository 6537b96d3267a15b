"""Writes that the cache does not show yet, and the reads that make up for them.

With a stale cache a controller would create a pod twice. After a burst of creates
and deletes it therefore waits until the watch has shown them all (controller_utils.go).

The cache of a standby lags behind the API server, usually by milliseconds, and by
minutes when a watch has stopped to send events. This process records its own writes
(see `consistency`); to see those of the former leader it must read from the API
server: an owner and its pods; lists of pods that many owners share, when this process
takes over from another; one object, where one cache may be older than another. A list
for each of 5,000 jobs in a namespace of 50,000 pods makes the API server look at 250
million pods.
"""

import asyncio
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from typing import Final, Generic, TypeVar

from msgspec import Struct
from prometheus_client import CollectorRegistry, Counter

from controller_manager.api import meta
from controller_manager.api.apps.v1 import selector_of
from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.scalars import parse_time
from controller_manager.api.selectors import Selector, format_selector
from controller_manager.client.rest.client import Client, ListOptions
from controller_manager.client.rest.errors import Conflict, NotFound, is_about
from controller_manager.clock import Clock
from controller_manager.informers.store import Lister
from controller_manager.runtime.consistency import ConsistencyStore

# Writes that the cache does not show yet: `Expectations` and `Takeover`.

TIMEOUT: Final = 300.0
"""Seconds after which the outcome of an expected write counts as unknown."""


class State(Enum):
    """The state of the expectations for a key."""

    FULFILLED = "the cache shows all writes"
    PENDING = "the cache does not show some write yet"
    UNKNOWN = "the outcome of some write is not known"


@dataclass(slots=True)
class _Expected:
    since: float
    creations: int = 0
    deletions: set[str] = field(default_factory=set)
    outcome_unknown: bool = False


class Expectations:
    """Creations by number and deletions by uid, for each key.

    Upstream trusts its cache once an expectation is five minutes old, and creates
    surplus pods if the watch lags for longer (kubernetes#129795). Here the state
    becomes `UNKNOWN` then; it becomes `UNKNOWN` immediately when a write got no
    response. The controller must then read from the API server before it writes
    again.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._expected: dict[str, _Expected] = {}

    def __len__(self) -> int:
        """Return the number of keys that have expectations."""
        return len(self._expected)

    def state(self, key: str) -> State:
        """Return the state of the expectations for `key`."""
        expected = self._expected.get(key)
        if expected is None:
            return State.FULFILLED
        if expected.outcome_unknown:
            return State.UNKNOWN
        if expected.creations <= 0 and not expected.deletions:
            return State.FULFILLED
        if self._clock.monotonic() - expected.since > TIMEOUT:
            return State.UNKNOWN
        return State.PENDING

    def expect(
        self, key: str, creations: int = 0, deletions: AbstractSet[str] = frozenset()
    ) -> None:
        """Expect these adds and deletions by uid, too; the time begins again."""
        former = self._expected.get(key, _Expected(0.0))
        self._expected[key] = _Expected(
            self._clock.monotonic(),
            creations=max(former.creations, 0) + creations,
            deletions={*former.deletions, *deletions},
            outcome_unknown=former.outcome_unknown,
        )

    def awaited_deletions(self, key: str) -> frozenset[str]:
        """Return the uids of the objects whose deletion is expected."""
        expected = self._expected.get(key)
        return frozenset() if expected is None else frozenset(expected.deletions)

    def creations_settled(self, key: str, count: int = 1) -> None:
        """Expect `count` fewer adds: the watch has shown them, or they failed."""
        expected = self._expected.get(key)
        if expected is not None:
            expected.creations -= count

    def cache_caught_up(self, key: str) -> None:
        """Expect no more adds: the cache is as new as the response to every create."""
        # An object that it does not show was deleted while the watch was broken.
        expected = self._expected.get(key)
        if expected is not None:
            expected.creations = 0

    def deletion_settled(self, key: str, uid: str) -> None:
        """Stop to expect the deletion of `uid`: it was seen, or it failed."""
        expected = self._expected.get(key)
        if expected is not None:
            expected.deletions.discard(uid)

    def outcome_unknown(self, key: str) -> None:
        """Note that a write got no response: it may have been applied or not."""
        expected = self._expected.setdefault(key, _Expected(self._clock.monotonic()))
        expected.outcome_unknown = True

    def forget(self, key: str) -> None:
        """Expect nothing of `key`."""
        self._expected.pop(key, None)


_SKEW: Final = timedelta(seconds=5)
"""The largest difference between the clocks of several API servers. It includes one
second, because timestamps are in whole seconds."""


class Takeover:
    """Tells which objects must be read from the API server before writing for them.

    Those are the objects that were created before this process led, each once.
    Upstream does not need this: its caches start after it was elected.
    """

    def __init__(self, server_clock: Clock, *, elected: bool) -> None:
        """Take a clock with the API server's time, which sets creation timestamps.

        Without an election (`elected`) there is no former leader.
        """
        self._clock = server_clock
        self._elected = elected
        self._since: datetime | None = None
        self._rechecked: set[str] = set()

    def start_leading(self) -> None:
        """Note that this process leads from now on."""
        if self._elected:
            self._since = self._clock.now()

    def must_recheck(self, obj: meta.KubeObject) -> bool:
        """Tell whether to read from the API server before writing for `obj`."""
        if self._since is None or meta.key_of(obj) in self._rechecked:
            return False
        created = obj.metadata.creation_timestamp
        return created is None or parse_time(created) <= self._since + _SKEW

    def rechecked(self, key: str) -> None:
        """Note that the object of `key` was read from the API server."""
        self._rechecked.add(key)

    def forget(self, key: str) -> None:
        """Drop the key of an object that is gone."""
        self._rechecked.discard(key)


class StaleSyncs:
    """Counts syncs that wait for a cache: ``PREFIX_stale_sync_skips_total``."""

    def __init__(
        self, registry: CollectorRegistry, prefix: str, *resources: meta.AnyResource
    ) -> None:
        self._skips = Counter(
            f"{prefix}_stale_sync_skips_total",
            "Syncs put off because a cache was older than the last write",
            ["group", "resource"],
            registry=registry,
        )
        for each in resources:
            self._skips.labels(each.group, each.plural)

    def count(self, resource: meta.AnyResource) -> None:
        """Count a sync that was put off because the cache of `resource` is stale."""
        self._skips.labels(resource.group, resource.plural).inc()


# Reads from the API server when a cache cannot be trusted.

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
        return (
            meta.resource_version_number(pod.metadata.resource_version) <= self.version
        )


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
                number = meta.resource_version_number(pod.metadata.resource_version)
                if number > last:
                    last, newest = number, pod
        return StoredPods(
            frozenset(uids), meta.resource_version_number(version), newest
        )


OwnerT = TypeVar("OwnerT", bound=meta.CompleteObject)


class OwnerReads(Generic[OwnerT]):
    """Reads stored owners and pods, and lets keys wait until the caches show them.

    It knows the owners that are gone there but still cached, until the cache shows it.
    """

    def __init__(
        self,
        client: Client,
        owners: meta.Resource[OwnerT],
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
        cached = self._lister.by_key(meta.key_of(owner))
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
        self._consistency.record(meta.key_of(owner), self._resource, stored)

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
        key, namespace = meta.key_of(owner), owner.metadata.namespace
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
                if selector.matches(meta.labels_of(pod)):
                    self._consistency.record(key, PODS, pod)
                    uids.add(pod.metadata.uid)
        return StoredPods(frozenset(uids), meta.resource_version_number(version))


ReadT = TypeVar("ReadT", bound=meta.KubeObject)


async def live(
    client: Client, resource: meta.Resource[ReadT], namespace: str, name: str
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
