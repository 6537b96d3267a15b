"""Computes when and why tainted devices evict the pods that use them (pure functions).

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
"""The longest toleration in seconds, about 30 years; longer times are cut."""


class DeviceName(NamedTuple):
    """The name of a device in claims and slices."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        """Return a text that is unique for each device."""
        return "/".join(self)


class Origin(Struct, frozen=True):
    """The origin of a taint: a rule, or a slice that has the device."""

    name: str
    uid: str
    is_rule: bool
    device: str = ""


class Reason(Struct, frozen=True):
    """A taint that evicts a pod, and the time; a time in the past means now."""

    origin: Origin
    taint: DeviceTaint
    due: datetime


Reasons = tuple[Reason, ...]


def due(reasons: Reasons) -> datetime | None:
    """Return the time of the eviction of a pod: the first of the times."""
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
    """Yield the NoExecute taints of a device: those of its driver, and of rules."""
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

    The shortest of several tolerations counts. Without a toleration, it is 0.
    """
    fitting = [each for each in tolerations if _tolerates(each, taint)]
    limits = [each.toleration_seconds for each in fitting]
    if None in limits:
        return None
    return min(
        (min(max(0, each), _LONGEST) for each in limits if each is not None), default=0
    )


def _tolerates(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    """Tell whether a toleration tolerates this NoExecute taint (ToleratesTaint).

    A toleration of all effects does not count here, as upstream.
    """
    if toleration.effect != NO_EXECUTE:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == _EXISTS:
        return True
    return toleration.operator in _EQUAL and toleration.value == taint.value
