"""The actions of users on workloads with a pod template, in a simulation."""

import asyncio
import random
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from controller_manager.api.json_objects import JSON
from tests.simulation.workload import Workload
from tests.simulation.world import NAMESPACE

if TYPE_CHECKING:
    from tests.simulation.world import World

Edit = Callable[[JSON, random.Random], None]
"""Changes a spec, with random values."""

REPLACEMENTS: Final = {
    "replace": "Background",
    "replace, waiting for dependents": "Foreground",
    "replace, keep dependents": "Orphan",
}
"""Ways to delete before creating again (``--cascade``)."""


def set_image(spec: JSON, rng: random.Random) -> None:
    """Give the template one of five images."""
    spec["template"]["spec"]["containers"][0]["image"] = f"app:v{rng.randrange(5)}"


def restart(spec: JSON, rng: random.Random) -> None:
    """Change an annotation of the template, as ``kubectl rollout restart`` does."""
    annotations = spec["template"]["metadata"].setdefault("annotations", {})
    annotations["restartedAt"] = f"{rng.random():.6f}"


class TemplateUsers(Workload):
    """Users who change and replace the objects of one resource in one namespace."""

    plural: ClassVar[str]
    names: ClassVar[Sequence[str]]
    edits: ClassVar[Mapping[str, Edit]]
    changes: ClassVar[Sequence[str]]
    """The names of the edits and replacements; a repeated name is more frequent."""

    dependents: ClassVar[Sequence[str]]
    """The plurals of resources whose objects a replacement waits for."""

    seed_text: ClassVar[str]

    def __init__(self, world: "World") -> None:
        super().__init__(world)
        self._rng = random.Random(f"{self.seed_text} {world.seed}")

    def create(self, namespace: str, name: str, rng: random.Random) -> None:
        """Create an object with a random spec."""
        obj = self.random_object(name, rng)
        obj["metadata"]["namespace"] = namespace
        kind = self.world.kind(self.plural)
        self.world.server.objects.create(kind, namespace, obj)

    @abstractmethod
    def random_object(self, name: str, rng: random.Random) -> JSON:
        """Return an object with a random spec."""

    async def use(self, operations: int) -> None:
        rng = self._rng
        for _ in range(operations):
            await asyncio.sleep(rng.uniform(1, 60))
            name, change = rng.choice(self.names), rng.choice(self.changes)
            await self.act(name, change, random.Random(rng.random()))

    async def act(self, name: str, change: str, rng: random.Random) -> None:
        """Carry out a change of the object of that name."""
        obj = self.world.find(self.plural, NAMESPACE, name)
        assert obj is not None
        if change in REPLACEMENTS:
            policy = REPLACEMENTS[change]
            await self.world.replace(self.plural, obj, policy, *self.dependents)
            return
        edit = self.edits[change]
        self.world.change(self.plural, obj, lambda obj: edit(obj["spec"], rng))
