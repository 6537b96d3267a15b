"""Users who write Endpoints themselves."""

import asyncio
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from controller_manager.api.json_objects import JSON
from tests.simulation.workload import Workload
from tests.simulation.world import NAMESPACE

if TYPE_CHECKING:
    from tests.simulation.world import World


NAMES: Final = ("ledger", "mail")
"""Services without selector."""

_SKIP: Final = "endpointslice.kubernetes.io/skip-mirror"
_LOCK: Final = "control-plane.alpha.kubernetes.io/leader"


def service_json(name: str) -> JSON:
    """Return a service without selector."""
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 25}]}}


def subsets_json(rng: random.Random) -> list[JSON]:
    """Return random subsets: with addresses of both families, and several ports."""

    def addresses(start: int) -> list[JSON]:
        ips = [f"192.168.0.{start + number}" for number in range(4)]
        ips += [f"fd00::{start + number}" for number in range(2)]
        return [{"ip": each} for each in rng.sample(ips, rng.randrange(4))]

    def subset(number: int) -> JSON:
        ports = [{"name": "a", "port": 1000 + number, "protocol": "TCP"}]
        if rng.random() < 0.3:
            ports.append({"name": "b", "port": 2000, "protocol": "UDP"})
        return {
            "addresses": addresses(10) or [{"ip": "192.168.0.99"}],
            "notReadyAddresses": addresses(20),
            "ports": ports,
        }

    return [subset(rng.randrange(3)) for _ in range(rng.randrange(3))]


def endpoints_json(name: str, rng: random.Random) -> JSON:
    """Return Endpoints as a user writes them."""
    return {"metadata": {"name": name}, "subsets": subsets_json(rng)}


def _change_subsets(obj: JSON, rng: random.Random) -> None:
    obj["subsets"] = subsets_json(rng)


def _change_labels(obj: JSON, rng: random.Random) -> None:
    obj["metadata"]["labels"] = {"team": rng.choice("xyz")}


def _change_annotations(obj: JSON, rng: random.Random) -> None:
    obj["metadata"]["annotations"] = {"note": rng.choice("xyz")}


def _skip(obj: JSON, _: random.Random) -> None:
    obj["metadata"]["labels"] = {_SKIP: "true"}


def _lock(obj: JSON, _: random.Random) -> None:
    obj["metadata"]["annotations"] = {_LOCK: "{}"}


_EDITS: Final[tuple[Callable[[JSON, random.Random], None], ...]] = (
    *(_change_subsets,) * 3,
    _change_labels,
    _change_annotations,
    _skip,
    _lock,
)


class EndpointsUsers(Workload):
    """Users of two services whose Endpoints they write, and of their slices."""

    def __init__(self, world: "World") -> None:
        super().__init__(world)
        self._rng = random.Random(f"mirroring {world.seed}")

    def create_objects(self, namespace: str) -> None:
        names = NAMES if namespace == NAMESPACE else NAMES[:1]
        for name in names:
            rng = random.Random(f"{namespace} {name} {self.world.seed}")
            self._create("services", namespace, service_json(name))
            self._create("endpoints", namespace, endpoints_json(name, rng))

    def _create(self, plural: str, namespace: str, obj: JSON) -> None:
        self.world.server.objects.create(self.world.kind(plural), namespace, obj)

    async def use(self, operations: int) -> None:
        rng = self._rng
        for _ in range(operations):
            await asyncio.sleep(rng.uniform(1, 60))
            name, choice = rng.choice(NAMES), rng.random()
            rest = random.Random(rng.random())
            if choice < 0.7:
                found = self._find("endpoints", name)
                edit = rest.choice(_EDITS)
                self._change(found, edit, rest)
            elif choice < 0.8:
                self._edit_slice(name, rest)
            elif choice < 0.9:
                self.world.delete("endpoints", self._find("endpoints", name))
                self._create("endpoints", NAMESPACE, endpoints_json(name, rest))
            else:
                await self._replace(name, rest)

    def _find(self, plural: str, name: str) -> JSON:
        found = self.world.find(plural, NAMESPACE, name)
        assert found is not None
        return found

    def _change(
        self,
        endpoints: JSON,
        edit: Callable[[JSON, random.Random], None],
        rng: random.Random,
    ) -> None:
        self.world.change("endpoints", endpoints, lambda obj: edit(obj, rng))

    def _edit_slice(self, name: str, rng: random.Random) -> None:
        """Delete, empty or relabel one of the slices of Endpoints."""
        slices = [
            each
            for each in self.world.stored("endpointslices", NAMESPACE)
            if each["metadata"].get("labels", {}).get("kubernetes.io/service-name")
            == name
        ]
        if not slices:
            return
        chosen, what = rng.choice(slices), rng.randrange(3)
        if what == 0:
            self.world.delete("endpointslices", chosen)
        elif what == 1:
            self.world.change(
                "endpointslices", chosen, lambda obj: obj.update(endpoints=[])
            )
        else:
            self.world.change(
                "endpointslices",
                chosen,
                lambda obj: obj["metadata"]["labels"].update(mine="1"),
            )

    async def _replace(self, name: str, rng: random.Random) -> None:
        """Replace a service; its Endpoints go with it, unless they are a lock."""
        self._change(self._find("endpoints", name), _change_annotations, rng)
        self.world.delete("services", self._find("services", name))
        await self.world.until_gone("endpoints", NAMESPACE, name)
        self._create("services", NAMESPACE, service_json(name))
        self._create("endpoints", NAMESPACE, endpoints_json(name, rng))
