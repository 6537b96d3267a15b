"""Users of ephemeral volumes replace pods, and delete their claims."""

import asyncio
import random
from typing import TYPE_CHECKING, Final

from controller_manager.api.json_objects import JSON
from tests.simulation.workload import Workload
from tests.simulation.world import NAMESPACE

if TYPE_CHECKING:
    from tests.simulation.world import World


SCRATCH: Final = "scratch"
"""The namespace of the pods; quotas and edits of pods are in another one."""

_NAMES: Final = ("one", "two")


def pod_json(name: str, *volumes: str) -> JSON:
    """Return a pod with these ephemeral volumes."""
    resources = {"requests": {"storage": "1Gi"}}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": resources}
    template = {"metadata": {"labels": {"of": name}}, "spec": spec}
    return {
        "metadata": {"name": name},
        "spec": {
            "containers": [{"name": "c", "image": "app:v1"}],
            "volumes": [
                {"name": each, "ephemeral": {"volumeClaimTemplate": template}}
                for each in volumes
            ],
        },
    }


class EphemeralVolumeUsers(Workload):
    """Users of two pods with two ephemeral volumes each."""

    def __init__(self, world: "World") -> None:
        super().__init__(world)
        self._rng = random.Random(f"ephemeral volumes {world.seed}")

    def create_objects(self, namespace: str) -> None:
        if namespace == NAMESPACE:
            self.world.create_namespace(SCRATCH)
            for name in _NAMES:
                self._create(name)

    def _create(self, name: str) -> None:
        kind = self.world.kind("pods")
        self.world.server.objects.create(kind, SCRATCH, pod_json(name, "a", "b"))

    async def use(self, operations: int) -> None:
        rng = self._rng
        for _ in range(operations):
            await asyncio.sleep(rng.uniform(1, 60))
            name = rng.choice(_NAMES)
            if rng.random() < 0.5:
                await self._replace(name)
            else:
                self._lose(f"{name}-{rng.choice('ab')}")

    async def _replace(self, name: str) -> None:
        # A fault may have deleted the pod.
        if (pod := self.world.find("pods", SCRATCH, name)) is not None:
            self.world.delete("pods", pod)
        await self.world.until_gone("pods", SCRATCH, name)
        self._create(name)

    async def clean_up(self) -> None:
        """Create the pods again that faults have deleted: they have no controller."""
        for name in _NAMES:
            pod = self.world.find("pods", SCRATCH, name)
            if pod is None or "deletionTimestamp" in pod["metadata"]:
                await self._replace(name)

    def _lose(self, claim: str) -> None:
        """Delete a claim, and remove its finalizers."""
        found = self.world.find("persistentvolumeclaims", SCRATCH, claim)
        if found is None:
            return
        self.world.delete("persistentvolumeclaims", found)
        found = self.world.find("persistentvolumeclaims", SCRATCH, claim)
        if found is not None:
            self.world.change(
                "persistentvolumeclaims",
                found,
                lambda obj: obj["metadata"].pop("finalizers", None),
            )
