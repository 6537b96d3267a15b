"""Users replace, release and reserve claims and volumes."""

import asyncio
import random
from typing import TYPE_CHECKING, Any, Final

from controller_manager.api.json_objects import JSON
from tests.simulation.workload import Workload
from tests.simulation.world import NAMESPACE

if TYPE_CHECKING:
    from tests.simulation.world import World


DISKS: Final = "disks"
"""The namespace of the claims; quotas and edits of pods are in another one."""

CLASS: Final = "by-hand"
"""The class of the volumes. There is no such storage class, so none is provisioned."""

_VOLUMES: Final = ("disk-0", "disk-1", "disk-2")
_CLAIMS: Final = ("books", "films")


def volume_json(name: str, size: str = "1Gi", **spec: Any) -> JSON:
    """Return a volume that is kept when its claim is gone."""
    return {
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": size},
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": CLASS,
            "csi": {"driver": "csi.example.com", "volumeHandle": name},
            **spec,
        },
    }


def claim_json(name: str, **spec: Any) -> JSON:
    """Return a claim for such a volume; `None` leaves a field out."""
    fields = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": CLASS,
        **spec,
    }
    given = {key: value for key, value in fields.items() if value is not None}
    return {"metadata": {"name": name}, "spec": given}


class Binders(Workload):
    """Administrators of three volumes, and users of two claims."""

    def __init__(self, world: "World") -> None:
        super().__init__(world)
        self._rng = random.Random(f"volumes {world.seed}")

    def create_objects(self, namespace: str) -> None:
        if namespace != NAMESPACE:
            return
        self.world.create_namespace(DISKS)
        for name in _VOLUMES:
            self._create("persistentvolumes", "", volume_json(name))
        for name in _CLAIMS:
            self._create("persistentvolumeclaims", DISKS, claim_json(name))

    def _create(self, plural: str, namespace: str, obj: JSON) -> None:
        kind = self.world.kind(plural)
        self.world.server.objects.create(kind, namespace, obj)

    async def use(self, operations: int) -> None:
        rng = self._rng
        for _ in range(operations):
            await asyncio.sleep(rng.uniform(1, 60))
            choice = rng.random()
            if choice < 0.5:
                await self._replace_claim(rng.choice(_CLAIMS))
            elif choice < 0.8:
                self._clear(rng.choice(_VOLUMES))
            else:
                await self._replace_volume(rng.choice(_VOLUMES))

    async def _replace_claim(self, name: str) -> None:
        """Delete a claim and create it again, sometimes with the name of a volume."""
        await self._delete("persistentvolumeclaims", DISKS, name)
        spec = {"volumeName": self._rng.choice(_VOLUMES)}
        asks = self._rng.random() < 0.3
        obj = claim_json(name, **(spec if asks else {}))
        self._create("persistentvolumeclaims", DISKS, obj)

    def _clear(self, name: str) -> None:
        """Make a volume available whose claim is gone, as administrators do."""
        volume = self.world.find("persistentvolumes", "", name)
        if volume is None or volume.get("status", {}).get("phase") != "Released":
            return
        self.world.change(
            "persistentvolumes", volume, lambda obj: obj["spec"].pop("claimRef", None)
        )

    async def _replace_volume(self, name: str) -> None:
        """Delete a volume, by force if it is bound; sometimes reserve the new one."""
        await self._delete("persistentvolumes", "", name)
        reference = {"namespace": DISKS, "name": self._rng.choice(_CLAIMS)}
        volume = volume_json(name)
        if self._rng.random() < 0.3:
            volume["spec"]["claimRef"] = {**reference, "kind": "PersistentVolumeClaim"}
        self._create("persistentvolumes", "", volume)

    async def _delete(self, plural: str, namespace: str, name: str) -> None:
        found = self.world.find(plural, namespace, name)
        if found is not None:
            self.world.change(
                plural, found, lambda obj: obj["metadata"].pop("finalizers", None)
            )
            found = self.world.find(plural, namespace, name)
        if found is not None:
            self.world.delete(plural, found)
        await self.world.until_gone(plural, namespace, name)
