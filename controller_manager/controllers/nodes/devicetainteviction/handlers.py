"""Finds the pods that a change of a pod, a claim or a device concerns."""

from collections.abc import Callable, Iterable
from typing import Final

from controller_manager.api.core.scheduling import NO_EXECUTE
from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.dynamicresources.v1 import (
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Device,
    DeviceTaint,
    ResourceClaim,
    ResourceSlice,
)
from controller_manager.informers.changes import DependsOn
from controller_manager.informers.dispatch import Handler
from controller_manager.runtime.context import ControllerContext

from .claims import Claims, pool_of
from .decide import DeviceName

Taints = dict[str, tuple[DeviceTaint, ...]]

_NOTHING: Final[Taints] = {}


class DeviceHandlers:
    """Calls `enqueue` for the pods whose devices may have other taints now.

    A change of a slice concerns only the claims of devices whose taints have changed,
    which an index finds. A pod is concerned once it is bound and its claims are known.
    """

    def __init__(
        self,
        context: ControllerContext,
        claims: Claims,
        enqueue: Callable[[Pod], None],
        deleted: Callable[[Pod], None],
    ) -> None:
        """Watch pods, claims and slices; `deleted` is called for a deleted pod."""
        self._claims = claims
        self._enqueue = enqueue
        self._last: dict[str, int] = {}
        """The last generation of each pool at its last change."""
        informers = context.informers
        informers.informer(PODS).add_handler(
            Handler(
                on_add=self._pod_added,
                on_update=lambda _, new: self._pod_added(new),
                on_delete=deleted,
                depends_on=DependsOn(
                    "spec.nodeName",
                    "status.resourceClaimStatuses",
                    reading=("spec.resourceClaims",),
                ),
            )
        )
        informers.informer(RESOURCE_CLAIMS).add_handler(
            Handler(
                on_add=self._claim_changed,
                on_update=self._claim_updated,
                on_delete=self._claim_changed,
            )
        )
        informers.informer(RESOURCE_SLICES).add_handler(
            Handler(
                on_add=self._pool_changed,
                on_update=self._slice_updated,
                on_delete=self._pool_changed,
            )
        )

    def _pod_added(self, pod: Pod) -> None:
        if pod.spec.node_name and pod.spec.resource_claims:
            self._enqueue(pod)

    def _claim_changed(self, claim: ResourceClaim) -> None:
        for pod in self._claims.consumers(claim):
            self._enqueue(pod)

    def _claim_updated(self, old: ResourceClaim, new: ResourceClaim) -> None:
        if old.status != new.status or old.metadata.uid != new.metadata.uid:
            self._claim_changed(old)
            self._claim_changed(new)

    def _slice_updated(self, old: ResourceSlice, new: ResourceSlice) -> None:
        if pool_of(old) != pool_of(new):
            self._pool_changed(old)
            self._pool_changed(new)
        elif old.spec.pool.generation != new.spec.pool.generation:
            self._devices_changed(new, _differences(_tainted([old]), _NOTHING))
            self._pool_changed(new)
        elif old.spec.devices != new.spec.devices:
            changed = _differences(_tainted([old]), _tainted([new]))
            self._devices_changed(new, changed)

    def _pool_changed(self, resource_slice: ResourceSlice) -> None:
        """Check the tainted devices of a slice that was added, deleted or moved.

        If the pool has another last generation now, check those of all its slices.
        """
        pool = pool_of(resource_slice)
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
        self, resource_slice: ResourceSlice, names: Iterable[str]
    ) -> None:
        driver, pool = resource_slice.spec.driver, resource_slice.spec.pool.name
        for name in names:
            for claim in self._claims.using(DeviceName(driver, pool, name)):
                self._claim_changed(claim)


def _tainted(slices: Iterable[ResourceSlice]) -> Taints:
    """Return the devices of slices that have NoExecute taints."""
    devices = (
        each for resource_slice in slices for each in resource_slice.spec.devices or ()
    )
    return {each.name: taints for each in devices if (taints := _evicting(each))}


def _evicting(device: Device) -> tuple[DeviceTaint, ...]:
    return tuple(each for each in device.taints or () if each.effect == NO_EXECUTE)


def _differences(before: Taints, after: Taints) -> list[str]:
    return [
        name
        for name in {**before, **after}
        if before.get(name, ()) != after.get(name, ())
    ]
