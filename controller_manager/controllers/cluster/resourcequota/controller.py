"""The quota controller counts quotas after changes (resource_quota_controller.go)."""

import asyncio
import math
from collections.abc import Iterator
from typing import Any, Final

from msgspec.structs import replace

from controller_manager.api.core.claims import CLAIMS
from controller_manager.api.core.resources import RESOURCE_QUOTAS, ResourceQuota
from controller_manager.api.core.services import SERVICES
from controller_manager.api.core.v1 import PODS
from controller_manager.api.meta import AnyResource, KubeObject, key_of
from controller_manager.api.quantity import QuantityError
from controller_manager.client.rest.errors import Conflict
from controller_manager.control.all_resources import (
    ESTABLISHING,
    INITIAL_SYNC,
    REDISCOVER,
)
from controller_manager.control.gates import EXTENDED_RESOURCES, POD_LEVEL_RESOURCES
from controller_manager.control.quota.evaluators import (
    CLAIM_EVALUATOR,
    SERVICE_EVALUATOR,
    Evaluator,
    pod_evaluator,
)
from controller_manager.informers.dispatch import Handler
from controller_manager.informers.store import BY_NAMESPACE
from controller_manager.runtime.consistency import STALE_RECHECK, requeue_for
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.controller import Controller, WorkerGroup
from controller_manager.runtime.outcome import (
    DONE,
    Done,
    Outcome,
    Requeue,
    SyncError,
    failure_of,
)

from . import ResourceQuotaOptions, usage
from .monitors import VERBS, Devices, Monitors

_ADMITTED_RECENTLY: Final = 30.0
"""The seconds after a write of a quota in which a new object causes a recount."""

_COALESCE: Final = 1.0
"""The seconds until that recount, so that many new objects cause only one."""

_BUSY_RECHECK: Final = 0.05
"""The seconds until a key is tried again that the other queue is syncing."""

_UNSYNCED_RECHECK: Final = 1.0
"""The seconds between two checks for newly synced resources."""

_DISCOVERY: Final = "resources"
_EVERYTHING: Final = "everything"

_TYPED: Final[tuple[AnyResource, ...]] = (PODS, SERVICES, CLAIMS)
"""The resources of every API server of which quotas count more than objects."""


def init_resource_quota_controller(context: ControllerContext) -> Controller:
    """Wire the controller (NewController)."""
    of = QuotaController(context)
    count = context.config.of(ResourceQuotaOptions).concurrent_syncs
    ready = of.wait_for_sync
    return WorkerGroup(
        context.workers(of.primary, of.sync, count, of.enqueue_all, ready),
        context.workers(of.priority, of.sync, count, ready=ready),
        context.workers(of.discoveries, of.discover, 1, of.enqueue_discovery),
        context.workers(of.recounts, of.recount_all, 1, of.enqueue_recount),
    )


class QuotaController:
    """Counts the usage of the namespace of each quota.

    A quota is counted when its limits change, when an object is deleted or its usage
    shrinks, and every few minutes. A quota with an incomplete status comes first, in a
    queue of its own: the API server cannot admit objects until its status is complete.
    """

    def __init__(self, context: ControllerContext) -> None:
        self.primary = context.queue("resourcequota_primary")
        self.priority = context.queue("resourcequota_priority")
        self.recounts = context.queue("resourcequota_recounts")
        self.discoveries = context.queue("resourcequota_discovery")
        self._client = context.client
        self._clock = context.clock
        self._logger = context.logger
        self._resources = context.resources
        self._turns = context.turns
        self._one_by_one = context.one_by_one
        self._consistency = context.consistency
        self._consistency.records_writes = True
        self._period = context.config.of(ResourceQuotaOptions).sync_period
        self._quotas = context.lister(RESOURCE_QUOTAS, BY_NAMESPACE)
        self._syncing: set[str] = set()
        self._stale: set[str] = set()
        """Keys of quotas that wait until the cache shows the last write."""
        self._written: dict[str, float] = {}
        """The monotonic time of the last write of a quota, by its key."""
        self._pods = pod_evaluator(
            pod_level=context.config.features.is_enabled(POD_LEVEL_RESOURCES)
        )
        self._typed = self._watch_typed(context)
        has_devices = context.config.features.is_enabled(EXTENDED_RESOURCES)
        self._monitors = Monitors(
            context.informers,
            self._handler_of,
            # Upstream takes up to 30 s to notice a change of the served resources.
            lambda: self.discoveries.add_after(_DISCOVERY, ESTABLISHING),
            context.turns,
            Devices(context.lister(PODS), self._pods) if has_devices else None,
            context.logger,
            frozenset((each.group, each.plural) for each in _TYPED),
        )
        self._discovered = asyncio.Event()
        self._first_sync = asyncio.Lock()
        self._has_waited = False
        context.informers.informer(RESOURCE_QUOTAS).add_handler(
            Handler(on_add=self._enqueue, on_update=self._changed, on_delete=self._gone)
        )

    def _watch_typed(self, context: ControllerContext) -> list[usage.Source]:
        sources: list[usage.Source] = []
        evaluators = (self._pods, SERVICE_EVALUATOR, CLAIM_EVALUATOR)
        for resource, evaluator in zip(_TYPED, evaluators, strict=True):
            informer = context.informers.informer(resource)
            source = usage.CachedObjects(evaluator, informer.store, context.turns)
            informer.add_handler(self._handler_of(source))
            sources.append(source)
        return sources

    def _handler_of(self, source: usage.Source) -> Handler[Any]:
        return Handler(
            on_add=lambda obj: self.added(source, obj),
            on_update=lambda old, new: self.updated(source, old, new),
            on_delete=lambda obj: self.removed(source, obj),
        )

    def _sources(self) -> Iterator[usage.Source]:
        yield from self._typed
        yield from self._monitors.sources()

    # Changes that cause a recount.

    def enqueue_all(self) -> Iterator[None]:
        """Add the keys of all quotas, one in each step."""
        yield from self._one_by_one(self._quotas.all(), self._enqueue)

    def _enqueue(self, quota: ResourceQuota) -> None:
        """Add a quota to the queue for its status (addQuota)."""
        queue = self.priority if self._lacks_usage(quota) else self.primary
        queue.add(key_of(quota))

    def _lacks_usage(self, quota: ResourceQuota) -> bool:
        if not usage.is_settled(quota):
            return True
        used = quota.status.used or {}
        unknown = [name for name in quota.status.hard or () if name not in used]
        return bool(unknown) and any(
            each.evaluator.tracks(name) for each in self._sources() for name in unknown
        )

    def _changed(self, old: ResourceQuota, new: ResourceQuota) -> None:
        key = key_of(new)
        if key in self._stale:
            self._stale.discard(key)
            self.primary.add(key)
        # The API server changes the status whenever it admits an object.
        if usage.limits_differ(old, new):
            self._enqueue(new)

    def _gone(self, quota: ResourceQuota) -> None:
        key = key_of(quota)
        self._stale.discard(key)
        self._written.pop(key, None)
        self._consistency.forget(key)

    def added(self, source: usage.Source, obj: KubeObject) -> None:
        """Count again if a recount may have missed an admitted object.

        The API server charges a quota before it stores the object. A recount between
        the two, or one from a cache that lags behind, takes the charge back.
        """
        if not self._written:
            return
        recent = self._clock.monotonic() - _ADMITTED_RECENTLY
        for key in self._keys(source.evaluator, obj):
            if self._written.get(key, -math.inf) > recent:
                self.primary.add_after(key, _COALESCE)

    def updated(self, source: usage.Source, old: KubeObject, new: KubeObject) -> None:
        """Count again if the usage of an object has changed."""
        keys = self._keys(source.evaluator, new)
        now, footprint = self._clock.now(), source.evaluator.footprint
        if keys and footprint(old, now) != footprint(new, now):
            for key in keys:
                self.primary.add(key)

    def removed(self, source: usage.Source, obj: KubeObject) -> None:
        """Count again without a deleted object (replenishQuota)."""
        for key in self._keys(source.evaluator, obj):
            self.primary.add(key)

    def _keys(self, evaluator: Evaluator, obj: KubeObject) -> list[str]:
        return [
            key_of(quota)
            for quota in self._quotas.list(obj.metadata.namespace)
            if any(map(evaluator.tracks, quota.spec.hard or ()))
        ]

    # Counting.

    async def sync(self, key: str) -> Outcome:
        """Bring the status of one quota up to date (syncResourceQuota)."""
        quota = self._quotas.by_key(key)
        if quota is None:
            return DONE
        if key in self._syncing:
            return Requeue(_BUSY_RECHECK, "the other queue syncs this quota")
        if (stale := self._consistency.stale_cache(key)) is not None:
            self._stale.add(key)
            return requeue_for(stale)
        self._stale.discard(key)
        self._syncing.add(key)
        try:
            await self._sync(quota)
        except Conflict:
            # The API server changes a quota with each object that it admits.
            if self._quotas.by_key(key) is not quota:
                return Requeue(0, "the quota has changed meanwhile")
            self._stale.add(key)
            why = "the cache does not show the quota's last change"
            return Requeue(STALE_RECHECK, why)
        finally:
            self._syncing.discard(key)
        return DONE

    async def _sync(self, quota: ResourceQuota) -> None:
        counted, problems = await usage.recount(
            quota, self._sources(), self._clock.now()
        )
        try:
            status = usage.status_to_write(quota, counted)
        except QuantityError as error:
            msg = f"quota {key_of(quota)} cannot be counted: {error}"
            raise SyncError(msg) from error
        if status is not None:
            self._written[key_of(quota)] = self._clock.monotonic()
            await self._client.update_for_metadata(
                RESOURCE_QUOTAS, replace(quota, status=status), "status"
            )
        if problems:
            msg = f"not all of quota {key_of(quota)} was counted: {'; '.join(problems)}"
            raise SyncError(msg)

    async def recount_all(self, key: str) -> Outcome:  # noqa: ARG002 - there is one
        """Add the keys of all quotas, every few minutes."""
        turn = 0
        for quota in self._quotas.keys():  # noqa: SIM118 - a method of the lister
            turn = await self._turns.wait(turn)
            self.primary.add(quota)
        return Done(self._period)

    def enqueue_recount(self) -> Iterator[None]:
        """Enqueue the first recount of all quotas; a period of 0 disables it."""
        if self._period:
            self.recounts.add_after(_EVERYTHING, self._period)
        yield

    # Resources that the API server serves.

    def enqueue_discovery(self) -> Iterator[None]:
        """Start discovery, and with it the watches."""
        self.discoveries.add(_DISCOVERY)
        yield

    async def discover(self, key: str) -> Outcome:
        """Discover resources, or check which of them are synced."""
        if key == _DISCOVERY:
            failed = await failure_of(self._discover(), REDISCOVER)
            return failed or Done(REDISCOVER)
        if self._monitors.newly_synced():
            for quota in self._quotas.all():
                if self._lacks_usage(quota):
                    self.priority.add(key_of(quota))
        return Done(_UNSYNCED_RECHECK) if self._monitors.unsynced() else DONE

    async def _discover(self) -> None:
        discovery = await self._resources.discovery(ESTABLISHING)
        if not discovery.preferred(*VERBS):
            self._logger.warning("No resources are discovered, keeping the watches")
            return
        if problem := discovery.problem():
            self._logger.warning("Not all resources are known", err=problem)
        self._monitors.adjust(discovery, self._clock.monotonic())
        self._discovered.set()
        self.discoveries.add("unsynced")

    async def wait_for_sync(self) -> None:
        """Wait until all resources are synced, half a minute at most.

        One resource that cannot be listed must not stop the counting of the others.
        Upstream waits for all of them.
        """
        async with self._first_sync:
            if self._has_waited:
                return
            try:
                async with asyncio.timeout(INITIAL_SYNC):
                    await self._discovered.wait()
                    await self._monitors.wait_for_sync()
            except TimeoutError:
                self._logger.warning(
                    "Not all resources could be read, counting the others",
                    unread=", ".join(self._monitors.unsynced()),
                )
            self._has_waited = True
