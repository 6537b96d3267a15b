"""What users do with claims: they replace claims and pods, in this order or in that."""

import asyncio
import random
from typing import TYPE_CHECKING, Final

from controller_manager.api.json_objects import JSON
from tests.simulation.workload import Workload
from tests.simulation.world import NAMESPACE

if TYPE_CHECKING:
    from tests.simulation.world import World


STORAGE: Final = "storage"
"""The namespace of the claims; quotas and edits of pods are in another one."""

_NAMES: Final = ("logs", "photos")
_IN_USE: Final = 10.0
"""Seconds that a pod goes on with a claim that was deleted."""


def claim_json(name: str) -> JSON:
    """Return a claim to a volume of the default storage class."""
    resources = {"requests": {"storage": "1Gi"}}
    return {
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": resources},
    }


def pod_json(name: str) -> JSON:
    """Return a pod that uses the claim of the same name."""
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": name}}
    containers = [{"name": "c", "image": "app:v1"}]
    return {
        "metadata": {"name": name},
        "spec": {"containers": containers, "volumes": [volume]},
    }


class ClaimUsers(Workload):
    """Users of two claims, each with a pod; in other namespaces there is one."""

    def __init__(self, world: "World") -> None:
        super().__init__(world)
        self._rng = random.Random(f"claims {world.seed}")

    def create_objects(self, namespace: str) -> None:
        if namespace == NAMESPACE:
            self.world.create_namespace(STORAGE)
            for name in _NAMES:
                self._create(STORAGE, name)
        else:
            self._create(namespace, _NAMES[0])

    def _create(self, namespace: str, name: str) -> None:
        objects = self.world.server.objects
        kind = self.world.kind("persistentvolumeclaims")
        objects.create(kind, namespace, claim_json(name))
        objects.create(self.world.kind("pods"), namespace, pod_json(name))

    async def use(self, operations: int) -> None:
        rng = self._rng
        for _ in range(operations):
            await asyncio.sleep(rng.uniform(1, 60))
            name = rng.choice(_NAMES)
            if rng.random() < 0.3:
                self._strip(name)
            else:
                await self._replace(name, claim_first=rng.random() < 0.7)

    def _strip(self, name: str) -> None:
        """Take the finalizers from a claim, as users do who do not know better."""
        claim = self.world.find("persistentvolumeclaims", STORAGE, name)
        assert claim is not None
        self.world.change(
            "persistentvolumeclaims",
            claim,
            lambda obj: obj["metadata"].pop("finalizers", None),
        )

    async def _replace(self, name: str, *, claim_first: bool) -> None:
        plurals = ["persistentvolumeclaims", "pods"]
        for plural in plurals if claim_first else reversed(plurals):
            # A fault may have deleted the pod.
            if (found := self.world.find(plural, STORAGE, name)) is not None:
                self.world.delete(plural, found)
            await asyncio.sleep(self._rng.uniform(0, _IN_USE))
        for plural in plurals:
            await self.world.until_gone(plural, STORAGE, name)
        self._create(STORAGE, name)
