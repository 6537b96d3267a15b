"""When and why the taints of devices evict the pods that use them.

Upstream: claimEvictionTime and podEvictionTime of pkg/controller/devicetainteviction.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from msgspec import Struct

from controller_manager.api.core.scheduling import NO_EXECUTE
from controller_manager.api.core.v1 import PODS, Pod, PodResourceClaim
from controller_manager.api.dynamicresources.v1 import (
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    AllocatedDevice,
    Device,
    DeviceTaint,
    DeviceToleration,
    ResourceClaim,
    ResourceSlice,
)
from controller_manager.api.dynamicresources.v1beta2 import (
    DEVICE_TAINT_RULES,
    DeviceTaintRule,
    DeviceTaintSelector,
)
from controller_manager.api.meta import controller_of
from controller_manager.api.scalars import parse_time
from controller_manager.informers.dispatch import Handler
from controller_manager.informers.store import Index
from controller_manager.runtime.context import ControllerContext

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

    The time counts from the taint's timeAdded, without it from `now`.
    """
    for origin, taint in taints:
        seconds = _tolerated(allocated.tolerations or (), taint)
        if seconds is not None:
            added = parse_time(taint.time_added) if taint.time_added else now
            yield Reason(origin, taint, added + timedelta(seconds=seconds))


def _tolerated(
    tolerations: Iterable[DeviceToleration], taint: DeviceTaint
) -> int | None:
    """Return the shortest toleration in seconds, 0 without one, `None` for ever."""
    fitting = [each for each in tolerations if _tolerates(each, taint)]
    limits = [each.toleration_seconds for each in fitting]
    if None in limits:
        return None
    return min(
        (min(max(0, each), _LONGEST) for each in limits if each is not None), default=0
    )


def _tolerates(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    """Tell whether a toleration of NoExecute tolerates a taint (ToleratesTaint)."""
    if toleration.effect != NO_EXECUTE:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in ("", "Equal") and toleration.value == taint.value


def devices_of(claim: ResourceClaim) -> Sequence[AllocatedDevice]:
    """Return the devices that are allocated for a claim."""
    allocation = claim.status.allocation
    return () if allocation is None else allocation.devices.results or ()


def _device_names(claim: ResourceClaim) -> Iterable[str]:
    return {str(name_of(each)) for each in devices_of(claim)}


def pool_of(resource_slice: ResourceSlice) -> str:
    """Return the pool of a slice; pools of several drivers may have one name."""
    return f"{resource_slice.spec.driver}/{resource_slice.spec.pool.name}"


def _has_same_pool(old: ResourceSlice, new: ResourceSlice) -> bool:
    return pool_of(old) == pool_of(new)


def _generation_of(pool: str, generation: int) -> str:
    return f"{pool}/{generation}"


def _generations(resource_slice: ResourceSlice) -> Iterable[str]:
    generation = resource_slice.spec.pool.generation
    return (_generation_of(pool_of(resource_slice), generation),)


def _published_names(resource_slice: ResourceSlice) -> Iterable[str]:
    driver, pool = resource_slice.spec.driver, resource_slice.spec.pool.name
    devices = resource_slice.spec.devices or ()
    return {str(DeviceName(driver, pool, each.name)) for each in devices}


CLAIMS_BY_DEVICE: Final = Index(
    "device",
    _device_names,
    lambda old, new: old.status.allocation == new.status.allocation,
)
"""Claims by each device that is allocated for them."""

SLICES_BY_POOL: Final = Index("pool", lambda each: (pool_of(each),), _has_same_pool)
"""Slices by their driver and their pool."""

SLICES_BY_GENERATION: Final = Index(
    "generation",
    _generations,
    lambda old, new: _has_same_pool(old, new) and old.spec.pool == new.spec.pool,
)
"""Slices by their pool and its generation."""

SLICES_BY_DEVICE: Final = Index(
    "device",
    _published_names,
    lambda old, new: _has_same_pool(old, new) and old.spec.devices == new.spec.devices,
)
"""Slices by each device that they publish."""


class Claims:
    """The claims, their devices and the rules, as the caches show them."""

    def __init__(self, context: ControllerContext, *, with_rules: bool) -> None:
        self._pods = context.lister(PODS)
        self._claims = context.lister(RESOURCE_CLAIMS, CLAIMS_BY_DEVICE)
        self._slices = context.lister(
            RESOURCE_SLICES, SLICES_BY_POOL, SLICES_BY_GENERATION, SLICES_BY_DEVICE
        )
        self._generations: dict[str, set[int]] = {}
        """The known generations of the slices of each pool."""
        self._rules = context.lister(DEVICE_TAINT_RULES) if with_rules else None
        context.informers.informer(RESOURCE_SLICES).add_handler(
            Handler(on_update=self._slice_changed, on_delete=self._slice_left)
        )

    def _slice_changed(self, old: ResourceSlice, new: ResourceSlice) -> None:
        if pool_of(old) != pool_of(new):
            self._slice_left(old)

    def _slice_left(self, resource_slice: ResourceSlice) -> None:
        """Forget the generations of a pool that has lost its last slice."""
        pool = pool_of(resource_slice)
        if not self._slices.count(SLICES_BY_POOL, pool):
            self._generations.pop(pool, None)

    def evicting_rules(self) -> list[DeviceTaintRule]:
        """Return the rules that evict pods."""
        if self._rules is None:
            return []
        return [each for each in self._rules.all() if is_evicting(each)]

    def rule(self, name: str) -> DeviceTaintRule | None:
        """Return a rule, `None` if there is none of that name."""
        return None if self._rules is None else self._rules.by_key(name)

    def rules(self) -> Sequence[DeviceTaintRule]:
        """Return all rules."""
        return () if self._rules is None else self._rules.all()

    def allocated(self) -> Iterator[ResourceClaim]:
        """Yield all claims with devices."""
        return (each for each in self._claims.all() if devices_of(each))

    def using(self, device: DeviceName) -> Sequence[ResourceClaim]:
        """Return the claims that a device is allocated for."""
        return self._claims.by_index(CLAIMS_BY_DEVICE, str(device))

    def all_slices(self, pool: str) -> Sequence[ResourceSlice]:
        """Return the slices of a pool, also outdated ones."""
        return self._slices.by_index(SLICES_BY_POOL, pool)

    def last_generation(self, pool: str) -> int:
        """Return the last generation of a pool, 0 if it has no slice.

        While the known generations have all slices of the pool, none has to be read.
        """
        total = self._slices.count(SLICES_BY_POOL, pool)
        known = self._present(pool, self._generations.get(pool, set()))
        if sum(known.values()) != total:
            every = self.all_slices(pool)
            known = self._present(pool, {each.spec.pool.generation for each in every})
        if not known:
            self._generations.pop(pool, None)
            return 0
        self._generations[pool] = set(known)
        return max(known)

    def _present(self, pool: str, generations: Iterable[int]) -> dict[int, int]:
        """Return how many slices of a pool have each of these generations."""
        counts = {
            each: self._slices.count(SLICES_BY_GENERATION, _generation_of(pool, each))
            for each in generations
        }
        return {each: count for each, count in counts.items() if count}

    def published(self) -> Iterator[DeviceName]:
        """Yield the devices of all pools."""
        for pool in dict.fromkeys(pool_of(each) for each in self._slices.all()):
            last = _generation_of(pool, self.last_generation(pool))
            for resource_slice in self._slices.by_index(SLICES_BY_GENERATION, last):
                spec = resource_slice.spec
                for device in spec.devices or ():
                    yield DeviceName(spec.driver, spec.pool.name, device.name)

    def consumers(self, claim: ResourceClaim) -> Iterator[Pod]:
        """Yield the pods that a claim is reserved for."""
        for each in claim.status.reserved_for or ():
            if each.api_group == "" and each.resource == "pods":
                pod = self._pods.get(claim.metadata.namespace, each.name)
                if pod is not None and pod.metadata.uid == each.uid:
                    yield pod

    def reasons(
        self, pod: Pod, rules: Sequence[DeviceTaintRule], now: datetime
    ) -> Reasons:
        """Return the reasons of the eviction of a bound pod (podEvictionTime).

        Only the devices of claims that are reserved for the pod count.
        """
        if not pod.spec.node_name:
            return ()
        found: dict[Reason, None] = {}
        for wanted in pod.spec.resource_claims or ():
            claim = self._claim_for(pod, wanted)
            for device in devices_of(claim) if claim is not None else ():
                taints = taints_of(name_of(device), self._find(device), rules)
                found.update(dict.fromkeys(reasons_of(device, taints, now)))
        return tuple(found)

    def _claim_for(self, pod: Pod, wanted: PodResourceClaim) -> ResourceClaim | None:
        name, is_generated = _name_of_claim(pod, wanted)
        claim = self._claims.get(pod.metadata.namespace, name) if name else None
        if claim is None:
            return None
        uid = pod.metadata.uid
        owner = controller_of(claim)
        if is_generated and (owner is None or owner.uid != uid):
            return None
        is_reserved = any(each.uid == uid for each in claim.status.reserved_for or ())
        return claim if is_reserved else None

    def _find(self, device: AllocatedDevice) -> tuple[ResourceSlice, Device] | None:
        last = self.last_generation(f"{device.driver}/{device.pool}")
        name = str(name_of(device))
        for resource_slice in self._slices.by_index(SLICES_BY_DEVICE, name):
            if resource_slice.spec.pool.generation != last:
                continue
            for each in resource_slice.spec.devices or ():
                if each.name == device.device:
                    return resource_slice, each
        return None


def _name_of_claim(pod: Pod, wanted: PodResourceClaim) -> tuple[str | None, bool]:
    """Return the known name of a pod's claim, and True if it was made for the pod."""
    if wanted.resource_claim_name is not None:
        return wanted.resource_claim_name, False
    for each in pod.status.resource_claim_statuses or ():
        if each.name == wanted.name:
            return each.resource_claim_name, True
    return None, True
