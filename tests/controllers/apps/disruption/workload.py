"""The actions of users on budgets: they drain nodes, scale, and change limits."""

import asyncio
import json
import random
from typing import TYPE_CHECKING, Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time
from controller_manager.client.rest.transport import Request, Response
from tests.clusters import TOKEN
from tests.controllers.apps.disruption.cases import budget_json
from tests.controllers.builders import deployment_json
from tests.simulation.workload import Workload
from tests.simulation.world import NAMESPACE

if TYPE_CHECKING:
    from tests.simulation.world import World


GUARDED: Final = "guarded"
"""The namespace of the guarded pods; quotas and edits of pods are in another one."""

_APP: Final = "shop"
_LIMITS: Final[tuple[JSON, ...]] = (
    {"minAvailable": 1},
    {"minAvailable": 3},
    {"minAvailable": "50%"},
    {"maxUnavailable": 1},
    {"maxUnavailable": "34%"},
    {"maxUnavailable": 0},
    {},
)
_MOST_DELAY: Final = 200.0
"""Seconds within which a pod is deleted whose eviction was allowed, or never."""


async def evict(world: "World", namespace: str, name: str) -> int:
    """Evict a pod; return the code of the answer."""
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
    }
    headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
    path = f"/api/v1/namespaces/{namespace}/pods/{name}/eviction"
    encoded = json.dumps(body).encode()
    answer = await world.server.handle(
        Request("POST", path, headers=headers, body=encoded)
    )
    assert isinstance(answer, Response)
    return answer.status


def allow_eviction(world: "World", budget: JSON, pod: JSON) -> bool:
    """Write what an API server writes before it deletes a pod; tell whether it may.

    The server may end before it deletes the pod.
    """
    status = budget.get("status", {})
    is_observed = status.get("observedGeneration") == budget["metadata"]["generation"]
    if not is_observed or not status.get("disruptionsAllowed"):
        return False

    def record(obj: JSON) -> None:
        now = format_time(world.clock.now())
        obj["status"].setdefault("disruptedPods", {})[pod["metadata"]["name"]] = now
        obj["status"]["disruptionsAllowed"] -= 1

    world.change("poddisruptionbudgets", budget, record, "status")
    return True


class BudgetUsers(Workload):
    """Users of a deployment with a budget; also in the namespace that may go."""

    def __init__(self, world: "World") -> None:
        super().__init__(world)
        self._rng = random.Random(f"budgets {world.seed}")

    def create_objects(self, namespace: str) -> None:
        if namespace == NAMESPACE:
            namespace = GUARDED
            self.world.create_namespace(GUARDED)
        objects = self.world.server.objects
        deployment = deployment_json(_APP, 4)
        deployment["metadata"]["namespace"] = namespace
        objects.create(self.world.kind("deployments"), namespace, deployment)
        budget = budget_json(_APP, _APP, maxUnavailable=1)
        budget["metadata"]["namespace"] = namespace
        objects.create(self.world.kind("poddisruptionbudgets"), namespace, budget)

    async def use(self, operations: int) -> None:
        rng = self._rng
        actions = (self._evict, self._evict, self._half_evict, self._restart)
        changes = (self._scale, self._limit)
        for _ in range(operations):
            await asyncio.sleep(rng.uniform(1, 60))
            # The same draws in every plan of faults.
            action = rng.choice((*actions, *changes))
            await action(random.Random(rng.random()))

    def _find(self, plural: str) -> JSON:
        found = self.world.find(plural, GUARDED, _APP)
        assert found is not None
        return found

    def _pod(self, rng: random.Random) -> JSON | None:
        pods = self.world.stored("pods", GUARDED)
        return rng.choice(pods) if pods else None

    async def _evict(self, rng: random.Random) -> None:
        if (pod := self._pod(rng)) is not None:
            await evict(self.world, GUARDED, pod["metadata"]["name"])

    async def _half_evict(self, rng: random.Random) -> None:
        """Let an API server end after it has allowed an eviction."""
        pod = self._pod(rng)
        if pod is None or "deletionTimestamp" in pod["metadata"]:
            return
        if not allow_eviction(self.world, self._find("poddisruptionbudgets"), pod):
            return
        await asyncio.sleep(rng.uniform(0, _MOST_DELAY))
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        current = self.world.find("pods", GUARDED, name)
        if current and current["metadata"]["uid"] == uid and rng.random() < 0.5:
            self.world.delete("pods", current)

    async def _restart(self, rng: random.Random) -> None:
        pod = self._pod(rng)
        if pod is not None and "deletionTimestamp" not in pod["metadata"]:
            self.world.restart_pod(pod)

    async def _scale(self, rng: random.Random) -> None:
        replicas = rng.randrange(1, 7)
        self.world.change(
            "deployments",
            self._find("deployments"),
            lambda obj: obj["spec"].update(replicas=replicas),
        )

    async def _limit(self, rng: random.Random) -> None:
        limit = rng.choice(_LIMITS)

        def edit(obj: JSON) -> None:
            obj["spec"] = {"selector": obj["spec"]["selector"], **limit}

        self.world.change(
            "poddisruptionbudgets", self._find("poddisruptionbudgets"), edit
        )
