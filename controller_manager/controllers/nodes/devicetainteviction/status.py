"""Writes the status of rules with the numbers of pods (maybeUpdateRuleStatus).

The condition of a rule about its evictions (maybeUpdateRuleStatus).
"""

import asyncio
from datetime import datetime
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from controller_manager.api.conditions import Condition, find_condition
from controller_manager.api.core.scheduling import NO_EXECUTE
from controller_manager.api.core.v1 import Pod
from controller_manager.api.dynamicresources.v1beta2 import (
    DEVICE_TAINT_RULES,
    DeviceTaintRule,
)
from controller_manager.api.meta import is_deleting, key_of
from controller_manager.api.times import format_time, parse_time
from controller_manager.client.errors import Conflict, NotFound
from controller_manager.runtime.context import ControllerContext

from .claims import Claims, devices_of
from .decide import name_of, selects

IN_PROGRESS: Final = "EvictionInProgress"
"""The type of the only condition of a rule."""

_NONE: Final = "None"
_NOT_AGAIN: Final = (
    "if the effect was NoExecute. This information will not be updated again. "
    "Recreate the DeviceTaintRule to trigger an update."
)


class Counts(Struct, frozen=True):
    """The effects of a rule, or those that it would have with the effect NoExecute.

    `pods` is the number of pods to evict, in a number of `namespaces`. `published` and
    `allocated` are numbers of devices that the rule selects. `evicted` is the number of
    pods that this process has evicted.
    """

    pods: int = 0
    namespaces: int = 0
    published: int = 0
    allocated: int = 0
    evicted: int = 0


def is_simulated(rule: DeviceTaintRule) -> bool:
    """Tell whether the status shows the effects that the rule would have."""
    return rule.spec.taint.effect == _NONE


def condition_of(rule: DeviceTaintRule, counts: Counts) -> Condition:
    """Return the condition of a rule, without the time of its transition."""
    status, reason, message = "False", "OtherEffect", ""
    match rule.spec.taint.effect:
        case "NoExecute" if counts.pods:
            status, reason = "True", "PodsPendingEviction"
            needs = "needs" if counts.pods == 1 else "need"
            message = (
                f"{_number(counts.pods, 'pod')} {needs} to be evicted in "
                f"{_namespaces(counts.namespaces)}."
            )
        case "NoExecute":
            reason = "Completed" if counts.evicted else "NotStarted"
        case "None":
            reason, message = "NoEffect", _simulation(counts)
        case _:
            message = "Eviction only happens for the NoExecute effect."
    if counts.evicted:
        evicted = f"{_number(counts.evicted, 'pod')} evicted since starting the "
        message = f"{message} {evicted}controller.".lstrip()
    return Condition(
        type=IN_PROGRESS,
        status=status,
        observed_generation=rule.metadata.generation,
        reason=reason,
        message=message,
    )


def _simulation(counts: Counts) -> str:
    return (
        f"{_number(counts.published, 'published device')} selected. "
        f"{_number(counts.allocated, 'allocated device')} selected. "
        f"{_number(counts.pods, 'pod')} would be evicted in "
        f"{_namespaces(counts.namespaces)} {_NOT_AGAIN}"
    )


def _number(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _namespaces(count: int) -> str:
    return "1 namespace" if count == 1 else f"{count} different namespaces"


def counts_pods(rule: DeviceTaintRule) -> bool:
    """Tell whether the condition has a number of pods."""
    return rule.spec.taint.effect in (NO_EXECUTE, _NONE)


PERIOD: Final = 10.0
"""Seconds between two changes of a rule's status."""

_TURN: Final = 500
"""The number of claims or devices that are processed in one turn."""


class RuleStatus:
    """Computes the condition of a rule, and writes it if it has changed.

    The transition time of the condition is the time of the last change of any field, as
    upstream. The next change is written `PERIOD` later, unless the rule has changed.
    """

    def __init__(self, context: ControllerContext, claims: Claims) -> None:
        self._client = context.client
        self._clock = context.server_clock
        self._field_manager = context.name
        self._claims = claims
        self._evicted: dict[str, int] = {}

    def evicted(self, uid: str) -> None:
        """Count a pod that a rule has evicted."""
        self._evicted[uid] = self._evicted.get(uid, 0) + 1

    def forget(self, uid: str) -> None:
        """Forget a rule that is gone."""
        self._evicted.pop(uid, None)

    async def update(self, rule: DeviceTaintRule) -> float | None:
        """Write the status of a rule; if it is too early, return seconds to wait."""
        known = find_condition(rule.status.conditions, IN_PROGRESS)
        now = self._clock.now()
        if known is not None and known.observed_generation == rule.metadata.generation:
            requeue_after = PERIOD - _age(known, now)
            if requeue_after > 0:
                return min(requeue_after, PERIOD)
        condition = condition_of(rule, await self._count(rule, now))
        if known is None or condition != replace(known, last_transition_time=None):
            await self._write(rule, condition)
        return None

    async def _write(self, rule: DeviceTaintRule, condition: Condition) -> None:
        fields: dict[str, Any] = {
            "type": condition.type,
            "status": condition.status,
            "reason": condition.reason,
            "message": condition.message,
            "observedGeneration": condition.observed_generation,
            "lastTransitionTime": format_time(self._clock.now()),
        }
        config = {
            "metadata": {"uid": rule.metadata.uid},
            "status": {"conditions": [fields]},
        }
        where = (DEVICE_TAINT_RULES, rule.metadata.name)
        try:
            await self._client.apply(*where, config, self._field_manager, "status")
        except (Conflict, NotFound):
            return  # the rule is gone, or another rule has its name now

    async def _count(self, rule: DeviceTaintRule, now: datetime) -> Counts:
        """Count the pods and devices of a rule, also if it is only simulated."""
        evicted = self._evicted.get(rule.metadata.uid, 0)
        if not counts_pods(rule):
            return Counts(evicted=evicted)
        simulated = is_simulated(rule)
        taint = replace(rule.spec.taint, effect=NO_EXECUTE)
        rule = replace(rule, spec=replace(rule.spec, taint=taint))
        pods, allocated = await self._pending(rule, now)
        published = await self._published(rule) if simulated else 0
        namespaces = {each.metadata.namespace for each in pods.values()}
        return Counts(len(pods), len(namespaces), published, allocated, evicted)

    async def _pending(
        self, rule: DeviceTaintRule, now: datetime
    ) -> tuple[dict[str, Pod], int]:
        """Return the pods that a rule evicts, and the number of allocated devices."""
        pods: dict[str, Pod] = {}
        selector, allocated = rule.spec.device_selector, 0
        for number, claim in enumerate(list(self._claims.allocated())):
            if number % _TURN == _TURN - 1:
                await asyncio.sleep(0)
            names = map(name_of, devices_of(claim))
            selected = sum(selects(selector, each) for each in names)
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

    async def _published(self, rule: DeviceTaintRule) -> int:
        count = 0
        for number, name in enumerate(list(self._claims.published())):
            count += selects(rule.spec.device_selector, name)
            if number % _TURN == _TURN - 1:
                await asyncio.sleep(0)
        return count


def _age(condition: Condition, now: datetime) -> float:
    since = condition.last_transition_time
    return PERIOD if since is None else (now - parse_time(since)).total_seconds()
