"""The actions of users on deployments: scale, change, pause, replace."""

import random
from collections.abc import Mapping
from typing import Final

from controller_manager.api.json_objects import JSON
from tests.controllers.apps.workload import (
    REPLACEMENTS,
    Edit,
    TemplateUsers,
    restart,
    set_image,
)
from tests.controllers.builders import deployment_json
from tests.simulation.workload import READY_AFTER
from tests.simulation.world import NAMESPACE

_NAMES: Final = ("api", "web", "worker")


def _rolling(rng: random.Random) -> JSON:
    return {
        "type": "RollingUpdate",
        "rollingUpdate": {
            "maxSurge": rng.choice([0, 1, "25%", 3]),
            "maxUnavailable": rng.choice([1, "25%", 2]),
        },
    }


def _scale(spec: JSON, rng: random.Random) -> None:
    spec["replicas"] = rng.randrange(8)


def _pause(spec: JSON, _: random.Random) -> None:
    spec["paused"] = not spec.get("paused", False)


def _change_bounds(spec: JSON, rng: random.Random) -> None:
    spec["strategy"] = _rolling(rng)


_EDITS: Final[Mapping[str, Edit]] = {
    "image": set_image,
    "scale": _scale,
    "pause": _pause,
    "restart": restart,
    "bounds": _change_bounds,
}
_CHANGES: Final = (*_EDITS, "image", "scale", "image", "scale", *REPLACEMENTS)


class DeploymentUsers(TemplateUsers):
    """Users of a few deployments in one namespace; in others there is one."""

    plural = "deployments"
    names = _NAMES
    edits = _EDITS
    changes = _CHANGES
    dependents = ("replicasets",)
    seed_text = "users"

    acts_always = True  # most faults are about objects of these users

    def create_objects(self, namespace: str) -> None:
        if namespace == NAMESPACE:
            for name in _NAMES:
                self.create(namespace, name, self._rng)
        else:
            rng = random.Random(f"{namespace} {self.world.seed}")
            self.create(namespace, "web", rng)

    def random_object(self, name: str, rng: random.Random) -> JSON:
        spec: JSON = {"strategy": {"type": "Recreate"}}
        if rng.random() < 0.8:
            spec["strategy"] = _rolling(rng)
        spec |= rng.choice(READY_AFTER)
        spec["revisionHistoryLimit"] = rng.choice([0, 2, 10])
        return deployment_json(name, rng.randrange(1, 7), **spec)

    async def clean_up(self) -> None:
        """Resume every paused deployment."""
        for deployment in self.world.stored("deployments", NAMESPACE):
            if deployment["spec"].get("paused"):
                name = deployment["metadata"]["name"]
                await self.act(name, "pause", random.Random(0))
