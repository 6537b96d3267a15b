"""Users who change services, their Endpoints, and their pods."""

import asyncio
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from controller_manager.api.json_objects import JSON
from tests.controllers.builders import deployment_json
from tests.simulation.workload import Workload
from tests.simulation.world import NAMESPACE

if TYPE_CHECKING:
    from tests.simulation.world import World


NAMES: Final = ("cart", "shelf", "till")
"""The services are called like the deployments whose pods they select."""

BY_HAND: Final = "database"
"""A service without selector, whose Endpoints users write."""


def service_json(name: str, *, headless: bool = False) -> JSON:
    """Return a service of the pods of the deployment of the same name."""
    ports = [{"name": "http", "port": 80, "targetPort": 8080}]
    spec: JSON = {"ports": ports, "selector": {"app": name}}
    if headless:
        spec["clusterIP"] = "None"
    return {"metadata": {"name": name, "labels": {"team": "x"}}, "spec": spec}


def endpoints_json(name: str) -> JSON:
    """Return Endpoints that a user writes."""
    ports = [{"name": "sql", "port": 5432, "protocol": "TCP"}]
    subset = {"addresses": [{"ip": "192.168.0.1"}], "ports": ports}
    return {"metadata": {"name": name}, "subsets": [subset]}


def _change_port(obj: JSON, rng: random.Random) -> None:
    obj["spec"]["ports"][0]["targetPort"] = rng.choice((8080, 9090))


def _add_port(obj: JSON, _: random.Random) -> None:
    more = {"name": "more", "port": 81, "targetPort": 7070, "protocol": "TCP"}
    obj["spec"]["ports"] = [obj["spec"]["ports"][0], more]


def _change_labels(obj: JSON, rng: random.Random) -> None:
    obj["metadata"]["labels"] = {"team": rng.choice("xyz")}


def _publish_all(obj: JSON, _: random.Random) -> None:
    obj["spec"]["publishNotReadyAddresses"] = True


def _select_others(obj: JSON, rng: random.Random) -> None:
    obj["spec"]["selector"] = {"app": rng.choice(NAMES)}


_EDITS: Final[tuple[Callable[[JSON, random.Random], None], ...]] = (
    _change_port,
    _add_port,
    _change_labels,
    _publish_all,
    _select_others,
)


def _empty(obj: JSON) -> None:
    obj.pop("subsets", None)


def _label(obj: JSON) -> None:
    obj["metadata"]["labels"] = {"mine": "1"}


class ServiceUsers(Workload):
    """Users of a service for each deployment, and of one with hand-made Endpoints."""

    def __init__(self, world: "World") -> None:
        super().__init__(world)
        self._rng = random.Random(f"services {world.seed}")

    def create_objects(self, namespace: str) -> None:
        for name in NAMES if namespace == NAMESPACE else NAMES[:1]:
            deployment = deployment_json(name, 2)
            deployment["metadata"]["namespace"] = namespace
            self._create("deployments", namespace, deployment)
            self._create("services", namespace, service_json(name))
        if namespace == NAMESPACE:
            self._create_by_hand()

    def _create(self, plural: str, namespace: str, obj: JSON) -> None:
        self.world.server.objects.create(self.world.kind(plural), namespace, obj)

    def _create_by_hand(self) -> None:
        service = service_json(BY_HAND)
        del service["spec"]["selector"]
        self._create("services", NAMESPACE, service)
        self._create("endpoints", NAMESPACE, endpoints_json(BY_HAND))

    async def use(self, operations: int) -> None:
        rng = self._rng
        for _ in range(operations):
            await asyncio.sleep(rng.uniform(1, 60))
            name, choice = rng.choice(NAMES), rng.random()
            rest = random.Random(rng.random())
            if choice < 0.2:
                self._scale(name, rest.randrange(1, 5))
            elif choice < 0.5:
                self._edit(name, rest)
            elif choice < 0.7:
                self._edit_endpoints(name, rest)
            elif choice < 0.9:
                await self._replace(name, headless=rest.random() < 0.3)
            else:
                await self._replace_by_hand()

    def _scale(self, name: str, replicas: int) -> None:
        deployment = self.world.find("deployments", NAMESPACE, name)
        assert deployment is not None
        self.world.change(
            "deployments", deployment, lambda obj: obj["spec"].update(replicas=replicas)
        )

    def _edit(self, name: str, rng: random.Random) -> None:
        edit = rng.choice(_EDITS)
        service = self.world.find("services", NAMESPACE, name)
        assert service is not None
        self.world.change("services", service, lambda obj: edit(obj, rng))

    def _edit_endpoints(self, name: str, rng: random.Random) -> None:
        """Empty, label or delete the Endpoints of a service that selects pods."""
        found = self.world.find("endpoints", NAMESPACE, name)
        if found is None:
            return
        if rng.random() < 0.3:
            self.world.delete("endpoints", found)
        else:
            self.world.change("endpoints", found, rng.choice((_empty, _label)))

    async def _replace(self, name: str, *, headless: bool) -> None:
        service = self.world.find("services", NAMESPACE, name)
        assert service is not None
        self.world.delete("services", service)
        await asyncio.sleep(self._rng.uniform(0, 5))
        self._create("services", NAMESPACE, service_json(name, headless=headless))

    async def _replace_by_hand(self) -> None:
        """Replace a service; its Endpoints go with it, and a user writes new ones."""
        service = self.world.find("services", NAMESPACE, BY_HAND)
        assert service is not None
        self.world.delete("services", service)
        await self.world.until_gone("endpoints", NAMESPACE, BY_HAND)
        self._create_by_hand()
