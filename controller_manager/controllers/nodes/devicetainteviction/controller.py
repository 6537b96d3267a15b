"""Plans, cancels and carries out evictions (device_taint_eviction.go).

Metrics of the device taint eviction controller, with upstream's names.
"""

import asyncio
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from msgspec import Struct
from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from controller_manager.api.core.v1 import PODS, Pod, PodMeta
from controller_manager.api.dynamicresources.v1 import RESOURCE_SLICES
from controller_manager.api.dynamicresources.v1beta2 import (
    DEVICE_TAINT_RULES,
    DeviceTaintRule,
    DeviceTaintSelector,
)
from controller_manager.api.meta import is_deleting, key_of
from controller_manager.client.errors import NotFound, is_about
from controller_manager.client.events import NORMAL
from controller_manager.control.pod_evictor import EvictionMetrics, PodEvictor
from controller_manager.informers.dispatch import Handler
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.controller import Controller
from controller_manager.runtime.outcome import DONE, Done, Failed, Outcome, Requeue

from .claims import Claims, devices_of
from .decide import Reason, Reasons, due, is_evicting, name_of, selects
from .handlers import DeviceHandlers
from .options import TAINT_RULES, DeviceTaintEvictionOptions
from .status import PERIOD, RuleStatus


class DeviceTaintEvictionMetrics(EvictionMetrics):
    """The ``device_taint_eviction_controller_*`` metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the collectors."""
        super().__init__(registry, "device_taint_eviction_controller")


_MESSAGE: Final = "Device Taint manager: deleting due to NoExecute taint"
_SHORTEST_WAIT: Final = 0.001
_LONGEST_WAIT: Final = 86400.0
"""The longest time in seconds until a pod is checked again."""
_STALE: Final = 1.0
"""Seconds until a pod is checked again if the cache of a taint is old."""
_TURN: Final = 500
"""The number of claims that are processed in one turn."""


class Planned(Struct, frozen=True):
    """The eviction of the pod `uid`; `rules` are the uids of the rules that ask for it.

    It is announced after an event was recorded, and done after the API server has
    accepted the deletion.
    """

    uid: str
    rules: frozenset[str] = frozenset()
    is_announced: bool = False
    is_done: bool = False


def init_device_taint_eviction_controller(context: ControllerContext) -> Controller:
    """Wire the controller to its informers (newDeviceTaintEvictionController)."""
    return DeviceTaintEviction(context).workers()


class DeviceTaintEviction:
    """Evicts pods at the times that the taints of their devices give.

    A key of its queue is a pod, ``namespace/name``, or a rule, a name without a slash.
    Times are those of the API server, and count from the timeAdded of each taint: a
    restart does not change them. Events before the start are ignored.
    """

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._client = context.client
        self._clock = context.server_clock
        self._recorder = context.recorder
        self._evictor = PodEvictor(
            context,
            "DeletionByDeviceTaintManager",
            _MESSAGE,
            observes_generation=False,
        )
        self._metrics = context.metrics.of(DeviceTaintEvictionMetrics)
        has_rules = context.config.features.is_enabled(TAINT_RULES)
        self._claims = Claims(context, with_rules=has_rules)
        self._status = RuleStatus(context, self._claims)
        self._pods = context.lister(PODS)
        self._queue = context.queue(context.name)
        self._planned: dict[str, Planned] = {}
        self._is_started = False
        self._reselected: dict[str, list[DeviceTaintSelector]] = {}
        DeviceHandlers(context, self._claims, self._enqueue_pod, self._pod_deleted)
        if has_rules:
            context.informers.informer(DEVICE_TAINT_RULES).add_handler(
                Handler(
                    on_add=self._rule_changed,
                    on_update=self._rule_updated,
                    on_delete=self._rule_deleted,
                )
            )

    def workers(self) -> Controller:
        """Return the workers, not yet running."""
        count = self._context.config.of(DeviceTaintEvictionOptions).concurrent_syncs
        return self._context.workers(self._queue, self.sync, count, self._enqueue_all)

    async def sync(self, key: str) -> Outcome:
        """Work on a pod or on a rule."""
        return await (self.sync_pod(key) if "/" in key else self.sync_rule(key))

    async def sync_rule(self, name: str) -> Outcome:
        """Write the status of a rule, and enqueue the pods of a rule that has changed.

        The status is written first, as upstream, but an error of it stops no eviction.
        """
        selectors = self._reselected.pop(name, [])
        rule = self._claims.rule(name)
        try:
            after = None if rule is None else await self._status.update(rule)
        except Exception as error:  # noqa: BLE001 - the worker reports it
            return Failed(error, PERIOD)
        finally:
            await self._enqueue_selected(selectors)
        return DONE if after is None else Done(max(after, _SHORTEST_WAIT))

    async def sync_pod(self, key: str) -> Outcome:
        """Plan, cancel or carry out the eviction of a pod."""
        pod = self._pods.by_key(key)
        planned = self._planned.get(key)
        if planned is not None and (pod is None or pod.metadata.uid != planned.uid):
            del self._planned[key]
            planned = None
        if pod is None or is_deleting(pod):
            return DONE
        if planned is not None and planned.is_done:
            return DONE
        now = self._clock.now()
        reasons = self._claims.reasons(pod, self._claims.evicting_rules(), now)
        time = due(reasons)
        if time is None:
            self._cancel(key)
            return DONE
        planned = self._plan(key, pod, reasons)
        requeue_after = (time - now).total_seconds()
        if requeue_after > 0:
            return Done(min(max(requeue_after, _SHORTEST_WAIT), _LONGEST_WAIT))
        return await self._evict(key, pod, planned, reasons)

    def _plan(self, key: str, pod: Pod, reasons: Reasons) -> Planned:
        """Store the planned eviction; the status of its rules is updated later."""
        uid = pod.metadata.uid
        origins = [each.origin for each in reasons if each.origin.is_rule]
        rules = frozenset(each.uid for each in origins)
        planned = self._planned.get(key)
        if planned is None or planned.rules != rules:
            for each in origins:
                self._queue.add_after(each.name, PERIOD)
            announced = planned is not None and planned.is_announced
            planned = Planned(uid, rules, is_announced=announced)
            self._planned[key] = planned
        return planned

    async def _evict(
        self, key: str, pod: Pod, planned: Planned, reasons: Reasons
    ) -> Outcome:
        """Evict a pod whose time is over, if the API server agrees."""
        now = self._clock.now()
        if not await self._is_confirmed(reasons, now):
            return Requeue(_STALE, "the cache shows old taints of devices")
        if not planned.is_announced:
            self._announce(planned.uid, key, "Marking for deletion")
            planned = replace(planned, is_announced=True)
            self._planned[key] = planned
        if await self._evictor.evict(pod, lambda _: True):
            self._count(reasons)
        if self._pods.by_key(key) is None:
            self._planned.pop(key, None)
        else:
            self._planned[key] = replace(planned, is_done=True)
        return DONE

    def _count(self, reasons: Reasons) -> None:
        """Count a pod that was evicted; the status of its rules is updated later."""
        time = due(reasons)
        if time is not None:
            delay = (self._clock.now() - time).total_seconds()
            self._metrics.deleted(max(0.0, delay))
        for origin in {each.origin for each in reasons if each.origin.is_rule}:
            rule = self._claims.rule(origin.name)
            if rule is not None and rule.metadata.uid == origin.uid:
                self._status.evicted(origin.uid)
                self._queue.add_after(origin.name, PERIOD)

    async def _is_confirmed(self, reasons: Reasons, now: datetime) -> bool:
        """Tell whether the API server also has a taint whose time is over.

        Otherwise a process that was paused, or whose watch is silent, would evict pods
        although their devices have no taint any more.
        """
        for reason in reasons:
            if reason.due <= now and await self._is_there(reason):
                return True
        return False

    async def _is_there(self, reason: Reason) -> bool:
        origin = reason.origin
        try:
            if origin.is_rule:
                rule = await self._client.get(DEVICE_TAINT_RULES, "", origin.name)
                cached = self._claims.rule(origin.name)
                is_same = rule.metadata.uid == origin.uid
                return is_same and cached is not None and rule.spec == cached.spec
            resource_slice = await self._client.get(RESOURCE_SLICES, "", origin.name)
        except NotFound as error:
            if not is_about(error, origin.name):
                raise
            return False
        return any(
            each.name == origin.device and reason.taint in (each.taints or ())
            for each in resource_slice.spec.devices or ()
        )

    def _cancel(self, key: str) -> None:
        """Forget an eviction that is not needed any more; record an event."""
        planned = self._planned.pop(key, None)
        if planned is not None:
            self._announce(planned.uid, key, "Cancelling deletion")

    def _announce(self, uid: str, key: str, message: str) -> None:
        # Upstream's reference to the pod has no version.
        namespace, _, name = key.partition("/")
        pod = Pod(metadata=PodMeta(namespace=namespace, name=name, uid=uid))
        reason = "DeviceTaintManagerEviction"
        self._recorder.event(PODS, pod, NORMAL, reason, message)

    def _enqueue_all(self) -> Iterator[None]:
        """Add all rules, and the pods with claims, when this process begins to lead."""
        self._is_started = True
        for rule in self._claims.rules():
            self._queue.add(rule.metadata.name)
            yield
        for pod in self._pods.all():
            if pod.spec.resource_claims:
                self._queue.add(key_of(pod))
            yield

    def _enqueue_pod(self, pod: Pod) -> None:
        self._queue.add(key_of(pod))

    def _pod_deleted(self, pod: Pod) -> None:
        if (key := key_of(pod)) in self._planned:
            self._queue.add(key)

    async def _enqueue_selected(self, selectors: list[DeviceTaintSelector]) -> None:
        """Enqueue the pods whose devices a changed rule selects or has selected."""
        if not selectors:
            return
        for number, claim in enumerate(list(self._claims.allocated())):
            names = [name_of(each) for each in devices_of(claim)]
            if any(selects(each, name) for each in selectors for name in names):
                for pod in self._claims.consumers(claim):
                    self._enqueue_pod(pod)
            if number % _TURN == _TURN - 1:
                await asyncio.sleep(0)

    def _rule_changed(self, rule: DeviceTaintRule) -> None:
        name, selector = rule.metadata.name, rule.spec.device_selector
        if self._is_started and selector is not None and is_evicting(rule):
            self._reselected.setdefault(name, []).append(selector)
        self._queue.add(name)

    def _rule_updated(self, old: DeviceTaintRule, new: DeviceTaintRule) -> None:
        if old.metadata.uid != new.metadata.uid:
            self._rule_deleted(old)
            self._rule_changed(new)
        elif old.spec != new.spec:
            self._rule_changed(old)
            self._rule_changed(new)

    def _rule_deleted(self, rule: DeviceTaintRule) -> None:
        self._status.forget(rule.metadata.uid)
        self._rule_changed(rule)
