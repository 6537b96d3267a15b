"""A workload: administrators change, replace and edit policies."""

import asyncio
import random
from typing import TYPE_CHECKING, Any, Final

from controller_manager.api.json_objects import JSON
from tests.controllers.cluster.validatingadmissionpolicystatus.builders import (
    policy_json,
)
from tests.simulation.workload import Workload
from tests.simulation.world import NAMESPACE

if TYPE_CHECKING:
    from tests.simulation.world import World


EXPRESSIONS: Final[dict[str, bool]] = {
    "object.spec.replicas <= 5": True,
    "object.replicas <= 5": False,
    "has(object.spec.paused) && !object.spec.paused": True,
    "object.spec.template.spec.containers.all(c, c.image != '')": True,
    "object.spec.template.spec.containers.all(c, c.img != '')": False,
    "object.metadata.name == 5": False,
}
"""Expressions about deployments, and whether they are right."""

_NAMES: Final = ("small", "signed")
_PLURAL: Final = "validatingadmissionpolicies"


class PolicyAuthors(Workload):
    """Authors of two policies."""

    def __init__(self, world: "World") -> None:
        super().__init__(world)
        self._rng = random.Random(f"policies {world.seed}")

    def create_objects(self, namespace: str) -> None:
        if namespace == NAMESPACE:
            for name in _NAMES:
                self._create(name)

    async def use(self, operations: int) -> None:
        for _ in range(operations):
            await asyncio.sleep(self._rng.uniform(1, 60))
            act = self._rng.choice((self._edit, self._edit, self._label, self._replace))
            act(self._rng.choice(_NAMES))

    def _policy(self, name: str) -> JSON:
        count = self._rng.randint(1, 2)
        return policy_json(name, *self._rng.sample([*EXPRESSIONS], count))

    def _create(self, name: str) -> None:
        kind = self.world.kind(_PLURAL)
        self.world.server.objects.create(kind, "", self._policy(name))

    def _edit(self, name: str) -> None:
        validations = self._policy(name)["spec"]["validations"]
        self._change(name, lambda obj: obj["spec"].update(validations=validations))

    def _label(self, name: str) -> None:
        labels = {"edited": str(self._rng.randint(1, 9))}
        self._change(name, lambda obj: obj["metadata"].update(labels=labels))

    def _replace(self, name: str) -> None:
        found = self.world.find(_PLURAL, "", name)
        assert found is not None
        self.world.delete(_PLURAL, found)
        self._create(name)

    def _change(self, name: str, edit: Any) -> None:
        found = self.world.find(_PLURAL, "", name)
        assert found is not None
        self.world.change(_PLURAL, found, edit)
