"""What users do with classes of attributes: they replace them, used or not."""

import asyncio
import random
from typing import TYPE_CHECKING, Final

from controller_manager.api.json_objects import JSON
from tests.simulation.workload import Workload
from tests.simulation.world import NAMESPACE

if TYPE_CHECKING:
    from tests.simulation.world import World


TIERS: Final = "tiers"
"""The namespace of the claims, and the storage class that there is not."""

PLURAL: Final = "volumeattributesclasses"
VOLUMES: Final = "persistentvolumes"
CLAIMS: Final = "persistentvolumeclaims"

_NAMES: Final = ("gold", "silver")
_IN_USE: Final = 10.0
"""Seconds between the deletion of a class and that of what uses it."""
_SIZE: Final = {"storage": "1Gi"}


def class_json(name: str) -> JSON:
    """Return a class of attributes."""
    return {
        "metadata": {"name": name},
        "driverName": "csi.example.com",
        "parameters": {"iops": "100"},
    }


def volume_json(name: str, attributes_class: str) -> JSON:
    """Return a volume of a class; no claim of the simulation fits."""
    return {
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": _SIZE,
            "csi": {"driver": "csi.example.com", "volumeHandle": name},
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": f"{TIERS}-{name}",
            "volumeAttributesClassName": attributes_class,
        },
    }


def claim_json(name: str, attributes_class: str) -> JSON:
    """Return a claim that wants a class; no volume of the simulation fits."""
    return {
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": _SIZE},
            "storageClassName": TIERS,
            "volumeAttributesClassName": attributes_class,
        },
    }


class AttributesClassUsers(Workload):
    """Users of two classes; a claim wants one of them, and a volume has the other."""

    def __init__(self, world: "World") -> None:
        super().__init__(world)
        self._rng = random.Random(f"attributes classes {world.seed}")

    def create_objects(self, namespace: str) -> None:
        if namespace == NAMESPACE:
            self.world.create_namespace(TIERS)
            for name in _NAMES:
                self._create(name)

    def _create(self, name: str) -> None:
        objects = self.world.server.objects
        objects.create(self.world.kind(PLURAL), "", class_json(name))
        self._create_user(name)

    def _create_user(self, name: str) -> None:
        objects = self.world.server.objects
        if name == _NAMES[0]:
            objects.create(self.world.kind(CLAIMS), TIERS, claim_json(name, name))
        else:
            objects.create(self.world.kind(VOLUMES), "", volume_json(name, name))

    async def use(self, operations: int) -> None:
        rng = self._rng
        for _ in range(operations):
            await asyncio.sleep(rng.uniform(1, 60))
            name = rng.choice(_NAMES)
            if rng.random() < 0.3:
                self._strip(name)
            else:
                await self._replace(name)

    def _strip(self, name: str) -> None:
        """Take the finalizers from a class, as users do who do not know better."""
        if (found := self.world.find(PLURAL, "", name)) is not None:
            self.world.change(
                PLURAL, found, lambda obj: obj["metadata"].pop("finalizers", None)
            )

    async def _replace(self, name: str) -> None:
        places = [(PLURAL, ""), (CLAIMS, TIERS) if name == "gold" else (VOLUMES, "")]
        self._rng.shuffle(places)
        for plural, namespace in places:
            if (found := self.world.find(plural, namespace, name)) is not None:
                self.world.delete(plural, found)
            await asyncio.sleep(self._rng.uniform(0, _IN_USE))
        for plural, namespace in places:
            await self.world.until_gone(plural, namespace, name)
        self._create(name)
