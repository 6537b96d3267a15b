"""Users request more storage for their claims."""

import asyncio
import random
from typing import TYPE_CHECKING, Final

from controller_manager.api.json_objects import JSON
from tests.simulation.workload import Workload
from tests.simulation.world import NAMESPACE

if TYPE_CHECKING:
    from tests.simulation.world import World


GROWING: Final = "growing"
"""The namespace of the claims, and their storage class."""

CLASSES: Final = "storageclasses"
VOLUMES: Final = "persistentvolumes"
CLAIMS: Final = "persistentvolumeclaims"

SOURCES: Final[JSON] = {
    "flex": {"flexVolume": {"driver": "example.com/flex"}},
    "ebs": {"awsElasticBlockStore": {"volumeID": "vol-1"}},
    "csi": {"csi": {"driver": "csi.example.com", "volumeHandle": "1"}},
}
"""The sources of volumes by the names of their claims."""


def class_json() -> JSON:
    """Return a class whose claims may grow."""
    return {
        "metadata": {"name": GROWING},
        "provisioner": "example.com/nobody",
        "allowVolumeExpansion": True,
    }


def volume_json(name: str, source: str, namespace: str) -> JSON:
    """Return a volume for the claim of the same name."""
    return {
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "claimRef": {"namespace": namespace, "name": name},
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": GROWING,
            **SOURCES[source],
        },
    }


def claim_json(name: str) -> JSON:
    """Return a claim to the volume of the same name."""
    return {
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": GROWING,
            "volumeName": name,
        },
    }


def ask_for(world: "World", namespace: str, name: str, size: str) -> None:
    """Change the size that a claim requests."""
    found = world.find(CLAIMS, namespace, name)
    assert found is not None
    resources = {"requests": {"storage": size}}
    world.change(CLAIMS, found, lambda obj: obj["spec"].update(resources=resources))


def finish(world: "World", namespace: str, name: str) -> None:
    """Do a kubelet's work: the file system has the size of the volume."""
    claim = world.find(CLAIMS, namespace, name)
    volume = world.find(VOLUMES, "", name)
    assert claim is not None
    assert volume is not None

    def expand(obj: JSON) -> None:
        obj["status"]["capacity"] = dict(volume["spec"]["capacity"])
        obj["status"].pop("allocatedResourceStatuses", None)
        obj["status"].pop("conditions", None)

    world.change(CLAIMS, claim, expand, "status")


class ClaimGrowers(Workload):
    """Users of three claims, each to a volume of another kind."""

    def __init__(self, world: "World") -> None:
        super().__init__(world)
        self._rng = random.Random(f"sizes {world.seed}")
        self._sizes = dict.fromkeys(SOURCES, 1)

    def create_objects(self, namespace: str) -> None:
        if namespace != NAMESPACE:
            return
        objects, world = self.world.server.objects, self.world
        world.create_namespace(GROWING)
        objects.create(world.kind(CLASSES), "", class_json())
        for name in SOURCES:
            volume = volume_json(name, name, GROWING)
            objects.create(world.kind(VOLUMES), "", volume)
            objects.create(world.kind(CLAIMS), GROWING, claim_json(name))

    async def use(self, operations: int) -> None:
        rng = self._rng
        for _ in range(operations):
            await asyncio.sleep(rng.uniform(1, 60))
            name = rng.choice(tuple(SOURCES))
            claim = self.world.find(CLAIMS, GROWING, name)
            if claim is None or claim["status"].get("phase") != "Bound":
                continue
            states = claim["status"].get("allocatedResourceStatuses", {})
            if states.get("storage") == "NodeResizePending":
                finish(self.world, GROWING, name)
            else:
                self._sizes[name] += 1
                ask_for(self.world, GROWING, name, f"{self._sizes[name]}Gi")
