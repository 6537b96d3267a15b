"""Users replace classes of attributes that may be in use."""

from typing import Final

from controller_manager.api.json_objects import JSON
from tests.controllers.protected_objects import ProtectedObjectUsers

TIERS: Final = "tiers"
"""The namespace of the claims, and the name of a storage class that does not exist."""

PLURAL: Final = "volumeattributesclasses"
VOLUMES: Final = "persistentvolumes"
CLAIMS: Final = "persistentvolumeclaims"

_NAMES: Final = ("gold", "silver")
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


class AttributesClassUsers(ProtectedObjectUsers):
    """Users of two classes; a claim wants one of them, and a volume has the other."""

    names = _NAMES
    home = TIERS
    protected = (PLURAL, "")
    seed_name = "attributes classes"

    def create(self, name: str) -> None:
        objects = self.world.server.objects
        objects.create(self.world.kind(PLURAL), "", class_json(name))
        self._create_user(name)

    def _create_user(self, name: str) -> None:
        objects = self.world.server.objects
        if name == _NAMES[0]:
            objects.create(self.world.kind(CLAIMS), TIERS, claim_json(name, name))
        else:
            objects.create(self.world.kind(VOLUMES), "", volume_json(name, name))

    async def replace(self, name: str) -> None:
        places = [(PLURAL, ""), (CLAIMS, TIERS) if name == "gold" else (VOLUMES, "")]
        self._rng.shuffle(places)
        await self.delete_all(name, places)
        self.create(name)
