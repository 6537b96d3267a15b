"""Says when tainted devices evict the pods that use them, and why (pure functions).

Upstream: claimEvictionTime and podEvictionTime of pkg/controller/devicetainteviction.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from msgspec import Struct

from controller_manager.api.core.scheduling import NO_EXECUTE
from controller_manager.api.dynamicresources.v1 import (
    AllocatedDevice,
    Device,
    DeviceTaint,
    DeviceToleration,
    ResourceSlice,
)
from controller_manager.api.dynamicresources.v1beta2 import (
    DeviceTaintRule,
    DeviceTaintSelector,
)
from controller_manager.api.times import parse_time

_EXISTS: Final = "Exists"
_EQUAL: Final = ("", "Equal")
_LONGEST: Final = 10**9
"""Seconds: a toleration for longer, 30 years, lasts no longer than that."""


class DeviceName(NamedTuple):
    """A device, as claims and slices name it."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        """Return a text that is different for each device."""
        return "/".join(self)


class Origin(Struct, frozen=True):
    """Where a taint comes from: a rule, or a slice that has the device."""

    name: str
    uid: str
    is_rule: bool
    device: str = ""


class Reason(Struct, frozen=True):
    """One taint that evicts a pod, and when; a time in the past means at once."""

    origin: Origin
    taint: DeviceTaint
    due: datetime


Reasons = tuple[Reason, ...]


def due(reasons: Reasons) -> datetime | None:
    """Return when a pod is evicted: at the first of the times."""
    return min((each.due for each in reasons), default=None)


def name_of(device: AllocatedDevice) -> DeviceName:
    """Return the name of an allocated device."""
    return DeviceName(device.driver, device.pool, device.device)


def selects(selector: DeviceTaintSelector | None, name: DeviceName) -> bool:
    """Tell whether a rule with this selector taints a device (ruleMatchesDevice)."""
    if selector is None:
        return False
    return (
        selector.driver in (None, name.driver)
        and selector.pool in (None, name.pool)
        and selector.device in (None, name.device)
    )


def is_evicting(rule: DeviceTaintRule) -> bool:
    """Tell whether a rule evicts pods."""
    return rule.spec.taint.effect == NO_EXECUTE


def taints_of(
    name: DeviceName,
    published: tuple[ResourceSlice, Device] | None,
    rules: Iterable[DeviceTaintRule],
) -> Iterator[tuple[Origin, DeviceTaint]]:
    """Yield the taints that evict from a device: its driver's, and those of rules."""
    if published is not None:
        resource_slice, device = published
        metadata = resource_slice.metadata
        origin = Origin(metadata.name, metadata.uid, is_rule=False, device=device.name)
        for taint in device.taints or ():
            if taint.effect == NO_EXECUTE:
                yield origin, taint
    for rule in rules:
        if is_evicting(rule) and selects(rule.spec.device_selector, name):
            origin = Origin(rule.metadata.name, rule.metadata.uid, is_rule=True)
            yield origin, rule.spec.taint


def reasons_of(
    allocated: AllocatedDevice,
    taints: Iterable[tuple[Origin, DeviceTaint]],
    now: datetime,
) -> Iterator[Reason]:
    """Yield the taints of a device that its claim does not tolerate for ever.

    The time counts from the taint's timeAdded, which the API server sets. Without it,
    it would count from `now`.
    """
    for origin, taint in taints:
        seconds = _tolerated(allocated.tolerations or (), taint)
        if seconds is not None:
            added = parse_time(taint.time_added) if taint.time_added else now
            yield Reason(origin, taint, added + timedelta(seconds=seconds))


def _tolerated(
    tolerations: Iterable[DeviceToleration], taint: DeviceTaint
) -> int | None:
    """Return the seconds for which a taint is tolerated, `None` for ever.

    The shortest of several tolerations counts; without one it is 0.
    """
    fitting = [each for each in tolerations if _tolerates(each, taint)]
    limits = [each.toleration_seconds for each in fitting]
    if None in limits:
        return None
    return min(
        (min(max(0, each), _LONGEST) for each in limits if each is not None), default=0
    )


def _tolerates(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    """Tell whether a toleration is for this taint that evicts (ToleratesTaint).

    A toleration of all effects does not count here, as upstream.
    """
    if toleration.effect != NO_EXECUTE:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == _EXISTS:
        return True
    return toleration.operator in _EQUAL and toleration.value == taint.value
