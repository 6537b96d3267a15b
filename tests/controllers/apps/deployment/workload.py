"""The actions of users on deployments: scale, change, pause, replace."""

import asyncio
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from controller_manager.api.json_objects import JSON
from tests.controllers.builders import deployment_json
from tests.simulation.workload import READY_AFTER, Workload

if TYPE_CHECKING:
    from tests.simulation.world import World


NAMESPACE: Final = "default"
_NAMES: Final = ("api", "web", "worker")


class DeploymentUsers(Workload):
    """Users of a few deployments in one namespace; in others there is one."""

    acts_always = True  # most faults are about objects of these users

    def __init__(self, world: "World") -> None:
        super().__init__(world)
        self._rng = random.Random(f"users {world.seed}")

    def create_objects(self, namespace: str) -> None:
        if namespace == NAMESPACE:
            for name in _NAMES:
                self._create(namespace, name, self._rng)
        else:
            rng = random.Random(f"{namespace} {self.world.seed}")
            self._create(namespace, "web", rng)

    def _create(self, namespace: str, name: str, rng: random.Random) -> None:
        spec: JSON = {"strategy": {"type": "Recreate"}}
        if rng.random() < 0.8:
            spec["strategy"] = _rolling(rng)
        spec |= rng.choice(READY_AFTER)
        spec["revisionHistoryLimit"] = rng.choice([0, 2, 10])
        deployment = deployment_json(name, rng.randrange(1, 7), **spec)
        deployment["metadata"]["namespace"] = namespace
        kind = self.world.kind("deployments")
        self.world.server.objects.create(kind, namespace, deployment)

    async def use(self, operations: int) -> None:
        rng = self._rng
        for _ in range(operations):
            await asyncio.sleep(rng.uniform(1, 60))
            name, change = rng.choice(_NAMES), rng.choice(_CHANGES)
            await self._edit(name, change, random.Random(rng.random()))

    async def _edit(self, name: str, change: str, rng: random.Random) -> None:
        obj = self.world.find("deployments", NAMESPACE, name)
        assert obj is not None
        if change in _REPLACEMENTS:
            policy = _REPLACEMENTS[change]
            await self.world.replace("deployments", obj, policy, "replicasets")
            return
        edit = _EDITS[change]
        self.world.change("deployments", obj, lambda obj: edit(obj["spec"], rng))

    async def clean_up(self) -> None:
        """Resume every paused deployment."""
        for deployment in self.world.stored("deployments", NAMESPACE):
            if deployment["spec"].get("paused"):
                name = deployment["metadata"]["name"]
                await self._edit(name, "pause", random.Random(0))


def _rolling(rng: random.Random) -> JSON:
    return {
        "type": "RollingUpdate",
        "rollingUpdate": {
            "maxSurge": rng.choice([0, 1, "25%", 3]),
            "maxUnavailable": rng.choice([1, "25%", 2]),
        },
    }


def _set_image(spec: JSON, rng: random.Random) -> None:
    spec["template"]["spec"]["containers"][0]["image"] = f"app:v{rng.randrange(5)}"


def _scale(spec: JSON, rng: random.Random) -> None:
    spec["replicas"] = rng.randrange(8)


def _pause(spec: JSON, _: random.Random) -> None:
    spec["paused"] = not spec.get("paused", False)


def _restart(spec: JSON, rng: random.Random) -> None:
    annotations = spec["template"]["metadata"].setdefault("annotations", {})
    annotations["restartedAt"] = f"{rng.random():.6f}"


def _change_bounds(spec: JSON, rng: random.Random) -> None:
    spec["strategy"] = _rolling(rng)


_EDITS: Final[dict[str, Callable[[JSON, random.Random], None]]] = {
    "image": _set_image,
    "scale": _scale,
    "pause": _pause,
    "restart": _restart,
    "bounds": _change_bounds,
}
_REPLACEMENTS: Final = {
    "replace": "Background",
    "replace, waiting for dependents": "Foreground",
    "replace, keep dependents": "Orphan",
}
"""Ways to delete before creating again (``--cascade``)."""

_CHANGES: Final = (*_EDITS, "image", "scale", "image", "scale", *_REPLACEMENTS)
