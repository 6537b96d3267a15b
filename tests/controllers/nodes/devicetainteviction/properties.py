"""The properties of the device taint eviction controller."""

import asyncio
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import parse_time
from controller_manager.clock import LoopClock
from controller_manager.options.config import Config
from controller_manager.options.gates import FeatureGates
from tests.clusters import EPOCH
from tests.controllers.nodes.devicetainteviction.workload import DeviceUsers
from tests.simulation.changes import only
from tests.simulation.properties import AllowedWrite, Properties, Write
from tests.simulation.state import State

if TYPE_CHECKING:
    from tests.simulation.managers import Manager


_WHILE: Final = 300.0
"""Seconds after which a pod that does not tolerate a taint has been evicted."""

_ROUNDING: Final = 2.0
"""Seconds by which the time of a taint, and that of a write, are imprecise."""


_ON_THE_WAY: Final = 60.0
"""Seconds that a request may need, in which the taint may go."""


class DeviceTaintEvictionProperties(Properties):
    """It evicts pods whose devices are tainted, at the times of the taints."""

    controller = "device-taint-eviction-controller"
    bounded = (".claims.generations", "device-taint-eviction-controller.last")
    """Pools that have slices: a pool is no object, and goes with its last slice."""
    may_write = (
        AllowedWrite(("delete",), "pods"),
        AllowedWrite(("patch",), "pods/status", only(("status", "conditions"))),
        AllowedWrite(
            ("patch",),
            "devicetaintrules/status",
            only(("status", "conditions"), ("metadata", "managedFields")),
        ),
    )
    workload = DeviceUsers

    @classmethod
    def configured(cls, config: Config) -> Config:
        """Enable the rules."""
        overrides = {**config.features.overrides, "DRADeviceTaintRules": True}
        return replace(config, features=FeatureGates(overrides))

    def __init__(self, state: State) -> None:
        """Start without having seen a pod whose time is over."""
        super().__init__(state)
        self._over: dict[str, float] = {}
        self._reserved: dict[str, float] = {}

    def before_write(self) -> None:
        """Store the last time at which the toleration of each pod was over.

        A claim counts as reserved for a while after its pod has ended: the watch of
        claims may be late (seed 30162).
        """
        now = asyncio.get_running_loop().time()
        for claim in self.state.stored("resourceclaims"):
            self._reserved |= dict.fromkeys(_reserving(claim), now)
        late = {
            uid for uid, last in self._reserved.items() if now - last <= _ON_THE_WAY
        }
        for pod in self.state.stored("pods"):
            if _claims(pod) and min(self._taints(pod, late), default=1e9) < _ROUNDING:
                self._over[pod["metadata"]["uid"]] = now

    def after_write(self, write: Write) -> Iterator[str]:
        """No pod is evicted before its claim's toleration is over."""
        pod = write.before
        if (
            write.controller != self.controller
            or write.verb != "delete"
            or write.is_late
            or pod is None
        ):
            return
        now = asyncio.get_running_loop().time()
        if now - self._over.get(pod["metadata"]["uid"], -1e9) > _ON_THE_WAY:
            yield f"pod {pod['metadata']['name']} is evicted too early"

    def wrong_at_the_end(self, managers: "Sequence[Manager]") -> Iterator[str]:
        """No pod is left whose time has been over for a while."""
        del managers
        for pod in self.state.stored("pods"):
            taints = list(self._taints(pod))
            is_deleted = pod["metadata"].get("deletionTimestamp")
            if taints and min(taints) < -_WHILE and not is_deleted:
                yield f"pod {pod['metadata']['name']} is left with a tainted device"

    def _taints(self, pod: JSON, late: Collection[str] = ()) -> Iterator[float]:
        """Yield the seconds until each taint of a pod's devices evicts it.

        The claims of the pods whose uids are in `late` count as reserved for them.
        """
        now = LoopClock(EPOCH).now()
        for name in (each["resourceClaimName"] for each in _claims(pod)):
            claim = self.state.find("resourceclaims", "default", name)
            for each in _results(claim, pod, late):
                for taint in self._taints_of(each["device"]):
                    added = (now - parse_time(taint["timeAdded"])).total_seconds()
                    limits = [
                        one.get("tolerationSeconds")
                        for one in each.get("tolerations", ())
                    ]
                    if None not in limits:
                        yield min(limits, default=0) - added

    def _taints_of(self, device: str) -> Iterator[JSON]:
        for each in self.state.stored("resourceslices"):
            for published in each["spec"].get("devices", ()):
                if published["name"] == device:
                    yield from published.get("taints", ())
        for rule in self.state.stored("devicetaintrules"):
            if rule["spec"]["deviceSelector"]["device"] == device:
                yield rule["spec"]["taint"]


def _limits(result: JSON) -> list[Any]:
    tolerations = result.get("tolerations", ())
    return [each.get("tolerationSeconds") for each in tolerations]


def _claims(pod: JSON) -> Sequence[JSON]:
    found: Sequence[JSON] = pod["spec"].get("resourceClaims") or ()
    return [each for each in found if "resourceClaimName" in each]


def _reserving(claim: JSON | None) -> Sequence[str]:
    """Return the uids of the pods for which a claim is reserved."""
    status = (claim or {}).get("status") or {}
    return [each["uid"] for each in status.get("reservedFor", ())]


def _results(
    claim: JSON | None, pod: JSON, late: Collection[str] = ()
) -> Sequence[JSON]:
    status = (claim or {}).get("status") or {}
    is_reserved = pod["metadata"]["uid"] in (*_reserving(claim), *late)
    if not is_reserved or "allocation" not in status:
        return ()
    results: Sequence[JSON] = status["allocation"]["devices"]["results"]
    return results


PROPERTIES = DeviceTaintEvictionProperties
