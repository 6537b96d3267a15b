"""Users who change services, their pods, and even their slices."""

import asyncio
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from controller_manager.api.json_objects import JSON
from tests.simulation.workload import Workload
from tests.simulation.world import NAMESPACE

if TYPE_CHECKING:
    from tests.simulation.world import World


NETWORK: Final = "network"
"""The namespace of the services; quotas and edits of pods are in another one."""

_TIERS: Final = ("front", "back")
_PODS: Final = 9
_CHANGES: Final = ("pod", "pod", "pod", "service", "slice", "replace")
_PORTS: Final = (
    [{"name": "http", "port": 80, "targetPort": 8080}],
    [{"name": "http", "port": 80, "targetPort": "web"}],
    [{"name": "http", "port": 80, "targetPort": 8080}, {"name": "m", "port": 90}],
)


def service_json(name: str, **spec: Any) -> JSON:
    """Return a service that selects the pods of the tier that has its name."""
    whole = {"selector": {"tier": name}, "ports": _PORTS[0], **spec}
    return {"metadata": {"name": name}, "spec": whole}


def pod_json(name: str, tier: str) -> JSON:
    """Return a pod of a tier; every other one has a port called web."""
    container: JSON = {"name": "c", "image": "app:v1"}
    if name[-1] in "02468":
        container["ports"] = [{"name": "web", "containerPort": 8080}]
    metadata = {"name": name, "labels": {"tier": tier}}
    return {"metadata": metadata, "spec": {"containers": [container]}}


class ServiceUsers(Workload):
    """Users of two services in one namespace; in others there is one."""

    def __init__(self, world: "World") -> None:
        super().__init__(world)
        self._rng = random.Random(f"services {world.seed}")

    def create_objects(self, namespace: str) -> None:
        if namespace == NAMESPACE:
            self.world.create_namespace(NETWORK)
            for tier in _TIERS:
                self._create("services", NETWORK, service_json(tier))
            for number in range(_PODS):
                tier = self._rng.choice(_TIERS)
                self._create("pods", NETWORK, pod_json(f"pod-{number}", tier))
        else:
            self._create("services", namespace, service_json("front"))

    def _create(self, plural: str, namespace: str, obj: JSON) -> None:
        self.world.server.objects.create(self.world.kind(plural), namespace, obj)

    async def use(self, operations: int) -> None:
        for _ in range(operations):
            await asyncio.sleep(self._rng.uniform(1, 60))
            change = self._rng.choice(_CHANGES)
            # A random source of its own: its use depends on the objects on the cluster.
            rng = random.Random(self._rng.random())
            match change:
                case "pod":
                    await self._change_pod(rng.randrange(_PODS), rng.random())
                case "service":
                    self._change_service(rng)
                case "slice":
                    self._meddle(rng)
                case "replace":
                    await self._replace(rng.choice(_TIERS), rng)

    async def _change_pod(self, number: int, draw: float) -> None:
        name = f"pod-{number}"
        pod = self.world.find("pods", NETWORK, name)
        tier = _TIERS[int(draw * 100) % 2]
        if pod is None:
            self._create("pods", NETWORK, pod_json(name, tier))
        elif draw < 0.4:
            self.world.change(
                "pods", pod, lambda obj: obj["metadata"]["labels"].update(tier=tier)
            )
        elif draw < 0.7:
            self.world.restart_pod(pod)
        else:
            self.world.delete("pods", pod)
            await self.world.until_gone("pods", NETWORK, name)
            self._create("pods", NETWORK, pod_json(name, tier))

    def _change_service(self, rng: random.Random) -> None:
        service = self.world.find("services", NETWORK, rng.choice(_TIERS))
        if service is not None:
            edit = rng.choice(_EDITS)
            self.world.change("services", service, lambda obj: edit(obj, rng))

    def _meddle(self, rng: random.Random) -> None:
        """Edit or delete a slice, as some users do."""
        slices = self.world.stored("endpointslices", NETWORK)
        if not slices:
            return
        chosen = rng.choice(slices)
        if rng.random() < 0.5:
            self.world.delete("endpointslices", chosen)
        else:
            self.world.change(
                "endpointslices", chosen, lambda obj: obj.update(endpoints=[])
            )

    async def _replace(self, name: str, rng: random.Random) -> None:
        """Delete a service and create it again, sometimes beside its old slices."""
        service = self.world.find("services", NETWORK, name)
        if service is not None:
            self.world.delete("services", service)
        await self.world.until_gone("services", NETWORK, name)
        await asyncio.sleep(rng.choice([0, 0, 20]))
        self._create("services", NETWORK, service_json(name))


def _relabel(service: JSON, rng: random.Random) -> None:
    service["metadata"]["labels"] = {"team": rng.choice("xyz")}


def _change_ports(service: JSON, rng: random.Random) -> None:
    service["spec"]["ports"] = rng.choice(_PORTS)


def _publish(service: JSON, rng: random.Random) -> None:
    service["spec"]["publishNotReadyAddresses"] = rng.random() < 0.5


def _select(service: JSON, rng: random.Random) -> None:
    service["spec"]["selector"] = {"tier": rng.choice(_TIERS)}


def _distribute(service: JSON, rng: random.Random) -> None:
    distribution = rng.choice([None, "PreferClose", "PreferSameNode"])
    service["spec"]["trafficDistribution"] = distribution


_EDITS: Final[tuple[Callable[[JSON, random.Random], None], ...]] = (
    _relabel,
    _change_ports,
    _publish,
    _select,
    _distribute,
)
