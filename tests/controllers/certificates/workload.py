"""A workload: users create, approve, deny, and delete requests."""

import asyncio
import random
from typing import TYPE_CHECKING, Final

from controller_manager.api.certificates.v1 import (
    KUBE_APISERVER_CLIENT,
    KUBELET_CLIENT,
    KUBELET_SERVING,
)
from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.security import User
from tests.controllers.certificates.authorities import (
    CLIENT_USAGES,
    SERVING_USAGES,
    condition,
    request_for,
    signing_request,
)
from tests.simulation.workload import Workload
from tests.simulation.world import NAMESPACE

if TYPE_CHECKING:
    from tests.simulation.world import World


PLURAL: Final = "certificatesigningrequests"
NODE: Final = User("system:node:n1", groups=("system:nodes", "system:authenticated"))
"""A user that the API server knows, who may approve its own requests."""

_NAMES: Final = ("kubelet", "jane", "server", "wrong")
_JANE: Final = {"common_name": "jane", "organizations": ("devs",)}


def request_named(name: str) -> JSON:
    """Return the request of that name: one for each signer, and one to be refused."""
    if name == "kubelet":
        return signing_request(name, request_for(), KUBELET_CLIENT, CLIENT_USAGES)
    if name == "server":
        request = request_for(dns=("n1",))
        return signing_request(name, request, KUBELET_SERVING, SERVING_USAGES)
    usages = ("client auth",) if name == "jane" else ("server auth",)
    return signing_request(
        name,
        request_for(**_JANE),  # type: ignore[arg-type]
        KUBE_APISERVER_CLIENT,
        usages,
        expirationSeconds=3600,
    )


class Requesters(Workload):
    """Nodes and people who want certificates, and administrators who decide."""

    def __init__(self, world: "World") -> None:
        super().__init__(world)
        self._rng = random.Random(f"requests {world.seed}")
        world.server.tokens.add("node", NODE)

    def create_objects(self, namespace: str) -> None:
        if namespace == NAMESPACE:
            for name in _NAMES:
                self._create(name)

    async def use(self, operations: int) -> None:
        for _ in range(operations):
            await asyncio.sleep(self._rng.uniform(1, 60))
            name = self._rng.choice(_NAMES)
            found = self.world.find(PLURAL, "", name)
            if found is None:
                self._create(name)
            elif self._rng.random() < 0.3:
                self.world.delete(PLURAL, found)
            elif name != "kubelet" and not found["status"].get("conditions"):
                self._decide(found)

    def _create(self, name: str) -> None:
        kind = self.world.kind(PLURAL)
        user = NODE if name == "kubelet" else User("jane")
        self.world.server.objects.create(kind, "", request_named(name), user=user)

    def _decide(self, request: JSON) -> None:
        kind = "Denied" if self._rng.random() < 0.2 else "Approved"

        def decide(changed: JSON) -> None:
            changed["status"]["conditions"] = [condition(kind)]

        self.world.change(PLURAL, request, decide, "approval")
