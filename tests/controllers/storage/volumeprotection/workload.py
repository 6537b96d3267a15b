"""What users do with volumes: they replace volumes and claims, in any order."""

import asyncio
import random
from typing import TYPE_CHECKING, Final

from controller_manager.api.json_objects import JSON
from tests.simulation.workload import Workload
from tests.simulation.world import NAMESPACE

if TYPE_CHECKING:
    from tests.simulation.world import World


DISKS: Final = "protected-disks"
"""The namespace of the claims, and the storage class that there is not."""

_NAMES: Final = ("protected-one", "protected-two")
_IN_USE: Final = 10.0
"""Seconds between the deletion of a volume and that of its claim."""

_VOLUMES: Final = "persistentvolumes"
_CLAIMS: Final = "persistentvolumeclaims"
_SIZE: Final = {"storage": "1Gi"}


def volume_json(name: str) -> JSON:
    """Return a volume of an external driver."""
    return {
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": _SIZE,
            "csi": {"driver": "csi.example.com", "volumeHandle": name},
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": DISKS,
        },
    }


def claim_json(volume: str) -> JSON:
    """Return a claim to that volume, of the same name."""
    return {
        "metadata": {"name": volume},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": _SIZE},
            "storageClassName": DISKS,
            "volumeName": volume,
        },
    }


class VolumeUsers(Workload):
    """Users of two volumes, each with a claim."""

    def __init__(self, world: "World") -> None:
        super().__init__(world)
        self._rng = random.Random(f"volumes {world.seed}")

    def create_objects(self, namespace: str) -> None:
        if namespace == NAMESPACE:
            self.world.create_namespace(DISKS)
            for name in _NAMES:
                self._create(name)

    def _create(self, name: str) -> None:
        objects = self.world.server.objects
        objects.create(self.world.kind(_VOLUMES), "", volume_json(name))
        objects.create(self.world.kind(_CLAIMS), DISKS, claim_json(name))

    async def use(self, operations: int) -> None:
        rng = self._rng
        for _ in range(operations):
            await asyncio.sleep(rng.uniform(1, 60))
            name = rng.choice(_NAMES)
            if rng.random() < 0.3:
                self._strip(name)
            else:
                await self._replace(name, claim_first=rng.random() < 0.3)

    def _strip(self, name: str) -> None:
        """Take the finalizers from a volume, as users do who do not know better."""
        if (volume := self.world.find(_VOLUMES, "", name)) is not None:
            self.world.change(
                _VOLUMES, volume, lambda obj: obj["metadata"].pop("finalizers", None)
            )

    async def _replace(self, name: str, *, claim_first: bool) -> None:
        places = [(_VOLUMES, ""), (_CLAIMS, DISKS)]
        for plural, namespace in reversed(places) if claim_first else places:
            if (found := self.world.find(plural, namespace, name)) is not None:
                self.world.delete(plural, found)
            await asyncio.sleep(self._rng.uniform(0, _IN_USE))
        for plural, namespace in places:
            await self.world.until_gone(plural, namespace, name)
        self._create(name)
