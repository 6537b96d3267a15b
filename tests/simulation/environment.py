"""The environment of a scenario: a cluster, one manager, short ways to use them."""

import asyncio
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from controller_manager.api.json_objects import JSON
from tests.controllers.builders import deployment_json
from tests.simulation.checks import Checks
from tests.simulation.faults import Faults
from tests.simulation.managers import Manager
from tests.simulation.objects import lives
from tests.simulation.runner import simulated
from tests.simulation.world import NAMESPACE, World

WEEK_OF_CHURN: Final = 10_000
"""Deployments that are created and deleted in a week."""

FAR_AHEAD: Final = 1_000_000
"""The lead of the versions of one etcd over those of another."""


@dataclass
class Environment:
    """A cluster with one manager, and short ways to read and change objects."""

    world: World
    checks: Checks
    churn: int = WEEK_OF_CHURN
    """The number of deployments that come and go, about one a minute."""

    @property
    def manager(self) -> Manager:
        return self.world.managers[0]

    @property
    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def create(self, name: str = "web", replicas: int = 3, **spec: Any) -> None:
        kind = self.world.kind("deployments")
        obj = deployment_json(name, replicas, **spec)
        self.world.server.objects.create(kind, NAMESPACE, obj)

    def get(self, name: str = "web") -> JSON:
        found = self.world.find("deployments", NAMESPACE, name)
        assert found is not None
        return found

    def edit(self, name: str = "web", **spec: Any) -> None:
        self.world.change(
            "deployments", self.get(name), lambda obj: obj["spec"].update(spec)
        )

    def set_image(self, image: str, name: str = "web") -> None:
        template = self.get(name)["spec"]["template"]
        container = {**template["spec"]["containers"][0], "image": image}
        spec = {**template["spec"], "containers": [container]}
        self.edit(name, template={**template, "spec": spec})

    def live_pods(self) -> list[str]:
        """Return the names of all active pods of replica sets."""
        return [
            pod["metadata"]["name"]
            for replica_set in self.world.stored("replicasets")
            for pod in self.world.stored("pods")
            if lives(pod, replica_set["metadata"]["uid"])
        ]

    def status(self, field: str, name: str = "web") -> int:
        value: int = self.get(name).get("status", {}).get(field, 0)
        return value

    def condition(self, kind: str, name: str = "web") -> tuple[str, str]:
        """Return status and reason of a condition."""
        for each in self.get(name).get("status", {}).get("conditions", []):
            if each["type"] == kind:
                return each["status"], each["reason"]
        return "", ""

    def is_complete(self, name: str = "web") -> bool:
        obj = self.get(name)
        status: dict[str, int] = obj.get("status", {})
        wanted: int = obj["spec"]["replicas"]
        return (
            status.get("observedGeneration") == int(obj["metadata"]["generation"])
            and status.get("replicas", 0) == wanted
            and status.get("updatedReplicas", 0) == wanted
            and status.get("availableReplicas", 0) == wanted
        )

    async def until(
        self, condition: Callable[[], bool], within: float, every: float = 0.25
    ) -> float:
        """Wait for a condition; return the seconds that it took.

        It is looked at `every` so many seconds.
        """
        started = self.now
        while not condition():
            assert self.now - started < within, f"not so after {within:g} s"
            await asyncio.sleep(every)
        return self.now - started


Scenario = Callable[[Environment], Awaitable[None]]


async def play_in_environment(
    scenario: Scenario, churn: int, managers: int, more_properties: tuple[str, ...]
) -> list[str]:
    """Return the violations in a scenario."""
    world = World(0, Faults(0, frozenset()), managers, more_properties)
    async with simulated(world) as checks:
        environment = Environment(world, checks, churn)
        try:
            await scenario(environment)
        except AssertionError as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            checks.violate(f"{where.name}: not so: {error or where.line}")
    return checks.violations
