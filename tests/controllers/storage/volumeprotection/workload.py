"""Users replace volumes and claims, in any order."""

from typing import Final

from controller_manager.api.json_objects import JSON
from tests.controllers.protected_objects import ProtectedObjectUsers

DISKS: Final = "protected-disks"
"""The namespace of the claims, and the name of a storage class that does not exist."""

_NAMES: Final = ("protected-one", "protected-two")

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
    """Return a claim for the volume of the same name."""
    return {
        "metadata": {"name": volume},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": _SIZE},
            "storageClassName": DISKS,
            "volumeName": volume,
        },
    }


class VolumeUsers(ProtectedObjectUsers):
    """Users of two volumes, each with a claim."""

    names = _NAMES
    home = DISKS
    protected = (_VOLUMES, "")
    seed_name = "volumes"

    def create(self, name: str) -> None:
        objects = self.world.server.objects
        objects.create(self.world.kind(_VOLUMES), "", volume_json(name))
        objects.create(self.world.kind(_CLAIMS), DISKS, claim_json(name))

    async def replace(self, name: str) -> None:
        places = [(_VOLUMES, ""), (_CLAIMS, DISKS)]
        claim_first = self._rng.random() < 0.3
        await self.delete_all(name, places, backwards=claim_first)
        self.create(name)
