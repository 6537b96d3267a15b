"""Evicts pods because of taints of their devices (device_taint_eviction.go)."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from typing import Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from controller_manager.api.core.scheduling import NO_EXECUTE
from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.dynamicresources import v1
from controller_manager.api.dynamicresources.v1beta2 import (
    DEVICE_TAINT_RULES,
    DeviceTaintRule,
    DeviceTaintSelector,
)
from controller_manager.api.meta import Condition, find_condition, is_deleting, key_of
from controller_manager.api.scalars import format_time, parse_time
from controller_manager.client.rest.errors import NotFound
from controller_manager.control.expectations import live
from controller_manager.control.pod_evictor import EvictionMetrics, PodEvictor
from controller_manager.informers.changes import DependsOn
from controller_manager.informers.dispatch import Handler
from controller_manager.informers.factory import ControllerInformers
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.controller import Controller
from controller_manager.runtime.outcome import DONE, Done, Failed, Outcome, Requeue

from . import TAINT_RULES, DeviceTaintEvictionOptions, claims
from .status import IN_PROGRESS, NO_EFFECT, Counts, condition_of, counts_pods

ItemT = TypeVar("ItemT")

Taints = dict[str, tuple[v1.DeviceTaint, ...]]
"""The NoExecute taints of devices, by the name of the device."""


class DeviceTaintEvictionMetrics(EvictionMetrics):
    """The ``device_taint_eviction_controller_*`` metrics."""

    prefix = "device_taint_eviction_controller"


_MESSAGE: Final = "Device Taint manager: deleting due to NoExecute taint"
_SHORTEST_WAIT: Final = 0.001
_LONGEST_WAIT: Final = 86400.0
"""The longest time in seconds until a pod is checked again."""
_STALE: Final = 1.0
"""Seconds until a pod is checked again if the cache of a taint is old."""
_TURN: Final = 500
"""The number of claims or devices that are processed in one turn."""
_PERIOD: Final = 10.0
"""Seconds between two changes of a rule's status."""


class Planned(Struct, frozen=True):
    """The eviction of the pod `uid`; `rules` are the uids of the rules that ask for it.

    It is announced by an event, and done once the API server has deleted the pod.
    """

    uid: str
    rules: frozenset[str] = frozenset()
    is_announced: bool = False
    is_done: bool = False


def init_device_taint_eviction_controller(context: ControllerContext) -> Controller:
    """Wire the controller to its informers (newDeviceTaintEvictionController)."""
    controller = DeviceTaintEviction(context)
    count = context.config.of(DeviceTaintEvictionOptions).concurrent_syncs
    return context.workers(
        controller.queue, controller.sync, count, controller.enqueue_all
    )


class DeviceTaintEviction:
    """Evicts pods at the times that the taints of their devices give.

    A key is a pod, ``namespace/name``, or a rule, without a slash. Times are those of
    the API server, and count from the timeAdded of each taint.
    """

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._clock = context.server_clock
        self._field_manager = context.name
        texts = ("DeletionByDeviceTaintManager", _MESSAGE, "DeviceTaintManagerEviction")
        self._evictor = PodEvictor(context, *texts, observes_generation=False)
        self._metrics = context.metrics.of(DeviceTaintEvictionMetrics)
        has_rules = context.config.features.is_enabled(TAINT_RULES)
        self._claims = claims.Claims(context, with_rules=has_rules)
        self._pods = context.lister(PODS)
        self.queue = context.queue(context.name)
        self._planned: dict[str, Planned] = {}
        self._is_started = False
        self._reselected: dict[str, list[DeviceTaintSelector]] = {}
        self._evicted: dict[str, int] = {}
        """The number of pods that each rule has evicted, by its uid."""
        self._last: dict[str, int] = {}
        """The last generation of each pool at its last change."""
        self._watch(context.informers, with_rules=has_rules)

    def _watch(self, informers: ControllerInformers, *, with_rules: bool) -> None:
        informers.informer(PODS).add_handler(
            Handler(
                on_add=self._pod_added,
                on_update=lambda _, new: self._pod_added(new),
                on_delete=self._pod_deleted,
                depends_on=DependsOn(
                    "spec.nodeName",
                    "status.resourceClaimStatuses",
                    reading=("spec.resourceClaims",),
                ),
            )
        )
        informers.informer(v1.RESOURCE_CLAIMS).add_handler(
            Handler(self._claim_changed, self._claim_updated, self._claim_changed)
        )
        informers.informer(v1.RESOURCE_SLICES).add_handler(
            Handler(self._pool_changed, self._slice_updated, self._pool_changed)
        )
        if with_rules:
            informers.informer(DEVICE_TAINT_RULES).add_handler(
                Handler(self._rule_changed, self._rule_updated, self._rule_deleted)
            )

    # Changes that concern pods and rules.

    def enqueue_all(self) -> Iterator[None]:
        """Add all rules, and the pods with claims, when this process begins to lead."""
        self._is_started = True
        for rule in self._claims.rules():
            self.queue.add(rule.metadata.name)
            yield
        for pod in self._pods.all():
            if pod.spec.resource_claims:
                self.queue.add(key_of(pod))
            yield

    def _pod_deleted(self, pod: Pod) -> None:
        if (key := key_of(pod)) in self._planned:
            self.queue.add(key)

    def _pod_added(self, pod: Pod) -> None:
        if pod.spec.node_name and pod.spec.resource_claims:
            self.queue.add(key_of(pod))

    def _claim_changed(self, claim: v1.ResourceClaim) -> None:
        for pod in self._claims.consumers(claim):
            self.queue.add(key_of(pod))

    def _claim_updated(self, old: v1.ResourceClaim, new: v1.ResourceClaim) -> None:
        if old.status != new.status or old.metadata.uid != new.metadata.uid:
            self._claim_changed(old)
            self._claim_changed(new)

    def _slice_updated(self, old: v1.ResourceSlice, new: v1.ResourceSlice) -> None:
        if claims.pool_of(old) != claims.pool_of(new):
            self._pool_changed(old)
            self._pool_changed(new)
        elif old.spec.pool.generation != new.spec.pool.generation:
            self._devices_changed(new, _differences(_tainted([old]), {}))
            self._pool_changed(new)
        elif old.spec.devices != new.spec.devices:
            changed = _differences(_tainted([old]), _tainted([new]))
            self._devices_changed(new, changed)

    def _pool_changed(self, resource_slice: v1.ResourceSlice) -> None:
        """Check the tainted devices of a slice, or of its pool's new generation."""
        pool = claims.pool_of(resource_slice)
        last = self._claims.last_generation(pool)
        concerned = [resource_slice]
        if self._last.get(pool, 0) != last:
            concerned += self._claims.all_slices(pool)
        if last:
            self._last[pool] = last
        else:
            self._last.pop(pool, None)
        self._devices_changed(resource_slice, _tainted(concerned))

    def _devices_changed(
        self, resource_slice: v1.ResourceSlice, names: Iterable[str]
    ) -> None:
        driver, pool = resource_slice.spec.driver, resource_slice.spec.pool.name
        for name in names:
            for claim in self._claims.using(claims.DeviceName(driver, pool, name)):
                self._claim_changed(claim)

    def _rule_changed(self, rule: DeviceTaintRule) -> None:
        name, selector = rule.metadata.name, rule.spec.device_selector
        if self._is_started and selector is not None and claims.is_evicting(rule):
            self._reselected.setdefault(name, []).append(selector)
        self.queue.add(name)

    def _rule_updated(self, old: DeviceTaintRule, new: DeviceTaintRule) -> None:
        if old.metadata.uid != new.metadata.uid:
            self._rule_deleted(old)
            self._rule_changed(new)
        elif old.spec != new.spec:
            self._rule_changed(old)
            self._rule_changed(new)

    def _rule_deleted(self, rule: DeviceTaintRule) -> None:
        self._evicted.pop(rule.metadata.uid, None)
        self._rule_changed(rule)

    # Rules and their status.

    async def sync(self, key: str) -> Outcome:
        """Work on a pod or on a rule."""
        return await (self.sync_pod(key) if "/" in key else self.sync_rule(key))

    async def sync_rule(self, name: str) -> Outcome:
        """Write the status of a rule, and enqueue the pods of a rule that has changed.

        The status is written first, but an error of it stops no eviction.
        """
        selectors = self._reselected.pop(name, [])
        rule = self._claims.rule(name)
        try:
            after = None if rule is None else await self._update_status(rule)
        except Exception as error:  # noqa: BLE001 - the worker reports it
            return Failed(error, _PERIOD)
        finally:
            await self._enqueue_selected(selectors)
        return DONE if after is None else Done(max(after, _SHORTEST_WAIT))

    async def _enqueue_selected(self, selectors: list[DeviceTaintSelector]) -> None:
        if not selectors:
            return
        async for claim in _in_turns(self._claims.allocated()):
            names = [claims.name_of(each) for each in claims.devices_of(claim)]
            if any(claims.selects(each, name) for each in selectors for name in names):
                self._claim_changed(claim)

    async def _update_status(self, rule: DeviceTaintRule) -> float | None:
        """Write the condition of a rule; if it is too early, return seconds to wait.

        The transition time of the condition is that of any change, as upstream.
        """
        known = find_condition(rule.status.conditions, IN_PROGRESS)
        now = self._clock.now()
        if known is not None and known.observed_generation == rule.metadata.generation:
            since = known.last_transition_time
            if since is not None:
                age = (now - parse_time(since)).total_seconds()
                if age < _PERIOD:
                    return min(_PERIOD - age, _PERIOD)
        condition = condition_of(rule, await self._counts_of(rule, now))
        if known is None or condition != replace(known, last_transition_time=None):
            await self._apply_condition(rule, condition)
        return None

    async def _apply_condition(
        self, rule: DeviceTaintRule, condition: Condition
    ) -> None:
        fields = {
            "type": condition.type,
            "status": condition.status,
            "reason": condition.reason,
            "message": condition.message,
            "observedGeneration": condition.observed_generation,
            "lastTransitionTime": format_time(self._clock.now()),
        }
        config = {
            "metadata": {"name": rule.metadata.name, "uid": rule.metadata.uid},
            "status": {"conditions": [fields]},
        }
        where = (DEVICE_TAINT_RULES, config, self._field_manager, "status")
        with suppress(NotFound):  # the rule is gone
            await self._client.apply(*where)

    async def _counts_of(self, rule: DeviceTaintRule, now: datetime) -> Counts:
        """Count the pods and devices of a rule, also if it is only simulated."""
        evicted = self._evicted.get(rule.metadata.uid, 0)
        if not counts_pods(rule):
            return Counts(evicted=evicted)
        is_simulated = rule.spec.taint.effect == NO_EFFECT
        taint = replace(rule.spec.taint, effect=NO_EXECUTE)
        rule = replace(rule, spec=replace(rule.spec, taint=taint))
        pods, allocated = await self._pending(rule, now)
        published = 0
        if is_simulated:
            async for name in _in_turns(self._claims.published()):
                published += claims.selects(rule.spec.device_selector, name)
        namespaces = {each.metadata.namespace for each in pods.values()}
        return Counts(len(pods), len(namespaces), published, allocated, evicted)

    async def _pending(
        self, rule: DeviceTaintRule, now: datetime
    ) -> tuple[dict[str, Pod], int]:
        """Return the pods that a rule evicts, and the number of allocated devices."""
        pods: dict[str, Pod] = {}
        selector, allocated = rule.spec.device_selector, 0
        async for claim in _in_turns(self._claims.allocated()):
            names = map(claims.name_of, claims.devices_of(claim))
            selected = sum(claims.selects(selector, each) for each in names)
            allocated += selected
            for pod in self._claims.consumers(claim) if selected else ():
                if self._is_evicted_by(rule, pod, now):
                    pods[key_of(pod)] = pod
        return pods, allocated

    def _is_evicted_by(self, rule: DeviceTaintRule, pod: Pod, now: datetime) -> bool:
        if is_deleting(pod):
            return False
        reasons = self._claims.reasons(pod, [rule], now)
        return any(each.origin.uid == rule.metadata.uid for each in reasons)

    # Evictions.

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
        time = claims.due(reasons)
        if time is None:
            self._cancel(key)
            return DONE
        planned = self._plan(key, pod, reasons)
        requeue_after = (time - now).total_seconds()
        if requeue_after > 0:
            return Done(min(max(requeue_after, _SHORTEST_WAIT), _LONGEST_WAIT))
        return await self._evict(key, pod, planned, reasons)

    def _plan(self, key: str, pod: Pod, reasons: claims.Reasons) -> Planned:
        uid = pod.metadata.uid
        origins = [each.origin for each in reasons if each.origin.is_rule]
        rules = frozenset(each.uid for each in origins)
        planned = self._planned.get(key)
        if planned is None or planned.rules != rules:
            for each in origins:
                self.queue.add_after(each.name, _PERIOD)
            announced = planned is not None and planned.is_announced
            planned = Planned(uid, rules, is_announced=announced)
            self._planned[key] = planned
        return planned

    async def _evict(
        self, key: str, pod: Pod, planned: Planned, reasons: claims.Reasons
    ) -> Outcome:
        """Evict a pod whose time is over, if the API server agrees."""
        now = self._clock.now()
        if not await self._is_confirmed(reasons, now):
            return Requeue(_STALE, "the cache shows old taints of devices")
        if not planned.is_announced:
            self._evictor.announce(key, planned.uid, "Marking for deletion")
            planned = replace(planned, is_announced=True)
            self._planned[key] = planned
        if await self._evictor.evict(pod, lambda _: True):
            self._count(reasons)
        if self._pods.by_key(key) is None:
            self._planned.pop(key, None)
        else:
            self._planned[key] = replace(planned, is_done=True)
        return DONE

    def _count(self, reasons: claims.Reasons) -> None:
        time = claims.due(reasons)
        if time is not None:
            delay = (self._clock.now() - time).total_seconds()
            self._metrics.deleted(max(0.0, delay))
        for origin in {each.origin for each in reasons if each.origin.is_rule}:
            rule = self._claims.rule(origin.name)
            if rule is not None and rule.metadata.uid == origin.uid:
                self._evicted[origin.uid] = self._evicted.get(origin.uid, 0) + 1
                self.queue.add_after(origin.name, _PERIOD)

    async def _is_confirmed(self, reasons: claims.Reasons, now: datetime) -> bool:
        """Tell whether the API server also has a taint whose time is over.

        The process may have been paused, and its watch may be silent.
        """
        for reason in reasons:
            if reason.due <= now and await self._is_there(reason):
                return True
        return False

    async def _is_there(self, reason: claims.Reason) -> bool:
        origin = reason.origin
        if origin.is_rule:
            rule = await live(self._client, DEVICE_TAINT_RULES, "", origin.name)
            cached = self._claims.rule(origin.name)
            if rule is None or cached is None or rule.metadata.uid != origin.uid:
                return False
            return rule.spec == cached.spec
        found = await live(self._client, v1.RESOURCE_SLICES, "", origin.name)
        return found is not None and any(
            each.name == origin.device and reason.taint in (each.taints or ())
            for each in found.spec.devices or ()
        )

    def _cancel(self, key: str) -> None:
        planned = self._planned.pop(key, None)
        if planned is not None:
            self._evictor.announce(key, planned.uid, "Cancelling deletion")


def _tainted(slices: Iterable[v1.ResourceSlice]) -> Taints:
    devices = (
        each for resource_slice in slices for each in resource_slice.spec.devices or ()
    )
    return {each.name: taints for each in devices if (taints := _evicting(each))}


def _evicting(device: v1.Device) -> tuple[v1.DeviceTaint, ...]:
    return tuple(each for each in device.taints or () if each.effect == NO_EXECUTE)


def _differences(before: Taints, after: Taints) -> list[str]:
    names = {**before, **after}
    return [name for name in names if before.get(name) != after.get(name)]


async def _in_turns(found: Iterable[ItemT]) -> AsyncIterator[ItemT]:
    """Yield items; other tasks run after a number of them."""
    for number, each in enumerate(list(found), 1):
        yield each
        if number % _TURN == 0:
            await asyncio.sleep(0)
