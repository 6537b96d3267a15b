"""Pods that use devices, and drivers and administrators who taint devices."""

import asyncio
import random
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.registry.core.pods import KIND as POD
from controller_manager.devcluster.registry.resource import CLAIMS, SLICES, TAINT_RULES
from controller_manager.devcluster.scheme.statuses import Refusal
from tests.simulation.workload import Workload

if TYPE_CHECKING:
    from tests.simulation.world import World


_DRIVER: Final = "gpu.example.com"
_NODE: Final = "node-0"
_DEVICES: Final = ("gpu-0", "gpu-1")
_TAINT: Final[JSON] = {"key": "broken", "effect": "NoExecute"}
_SECONDS: Final = ((), (None,), (30,), (120, 60))


class DeviceUsers(Workload):
    """They run pods with devices; devices break, and are repaired."""

    def __init__(self, world: "World") -> None:
        super().__init__(world)
        self._rng = random.Random(f"users of devices {world.seed}")

    async def use(self, operations: int) -> None:
        publish(self.world)
        for number in range(operations):
            await asyncio.sleep(self._rng.uniform(1, 60))
            seconds = self._rng.choice(_SECONDS)
            device = self._rng.choice(_DEVICES)
            with suppress(Refusal):  # a quota may be full
                run(self.world, f"gpu-{number}", device, *seconds)
            device = self._rng.choice(_DEVICES)
            self._rng.choice((taint, untaint, rule, unrule, _nothing))(
                self.world, device
            )

    async def clean_up(self) -> None:
        """Repair all devices, so that the remaining pods may stay."""
        for device in _DEVICES:
            untaint(self.world, device)
            unrule(self.world, device)


def publish(world: "World") -> None:
    """Publish the devices of a node."""
    pool = {"name": _NODE, "generation": 1, "resourceSliceCount": 1}
    spec = {
        "driver": _DRIVER,
        "pool": pool,
        "nodeName": _NODE,
        "devices": [{"name": each} for each in _DEVICES],
    }
    world.server.objects.create(
        SLICES, "", {"metadata": {"name": "gpus"}, "spec": spec}
    )


def run(world: "World", name: str, device: str, *seconds: int | None) -> None:
    """Run a pod that uses a device, and that tolerates taints for so many seconds."""
    objects = world.server.objects
    spec = {
        "nodeName": _NODE,
        "containers": [{"name": "c", "image": "app:v1"}],
        "resourceClaims": [{"name": "gpu", "resourceClaimName": name}],
    }
    pod = objects.create(POD, "default", {"metadata": {"name": name}, "spec": spec}).obj
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu"}}
    claim = {
        "metadata": {"name": name},
        "spec": {"devices": {"requests": [request]}},
    }
    stored = objects.create(CLAIMS, "default", claim).obj
    result: JSON = {
        "request": "gpu",
        "driver": _DRIVER,
        "pool": _NODE,
        "device": device,
    }
    if seconds:  # the API server stores no empty list
        result["tolerations"] = [_toleration(each) for each in seconds]
    uid = pod["metadata"]["uid"]
    status = {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": name, "uid": uid}],
    }
    objects.update(CLAIMS, "default", name, {**stored, "status": status}, "status")


def _toleration(seconds: int | None) -> JSON:
    toleration: JSON = {"key": "broken", "operator": "Exists", "effect": "NoExecute"}
    return (
        toleration if seconds is None else {**toleration, "tolerationSeconds": seconds}
    )


def taint(world: "World", device: str) -> None:
    """Taint a device, as its driver does."""
    _set_taints(world, device, [_TAINT])


def untaint(world: "World", device: str) -> None:
    """Remove the driver's taint of a device."""
    _set_taints(world, device, [])


def _set_taints(world: "World", device: str, taints: list[JSON]) -> None:
    published = world.find("resourceslices", "", "gpus")

    def edit(obj: JSON) -> None:
        for each in obj["spec"]["devices"]:
            if each["name"] == device:
                each["taints"] = taints

    if published is not None:
        world.change("resourceslices", published, edit)


def rule(world: "World", device: str) -> None:
    """Taint a device by a rule, as an administrator does."""
    if world.find("devicetaintrules", "", device) is None:
        spec = {"deviceSelector": {"device": device}, "taint": _TAINT}
        body = {"metadata": {"name": device}, "spec": spec}
        world.server.objects.create(TAINT_RULES, "", body)


def unrule(world: "World", device: str) -> None:
    """Delete the rule of a device."""
    found = world.find("devicetaintrules", "", device)
    if found is not None:
        world.delete("devicetaintrules", found)


def _nothing(world: "World", device: str) -> None:
    """Leave a device as it is."""
    del world, device
