"""Users replace claims and pods, in any order."""

from typing import Final

from controller_manager.api.json_objects import JSON
from tests.controllers.protected_objects import ProtectedObjectUsers
from tests.simulation.world import NAMESPACE

STORAGE: Final = "storage"
"""The namespace of the claims; quotas and edits of pods are in another one."""

_CLAIMS: Final = "persistentvolumeclaims"
_NAMES: Final = ("logs", "photos")


def claim_json(name: str) -> JSON:
    """Return a claim for a volume of the default storage class."""
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


class ClaimUsers(ProtectedObjectUsers):
    """Users of two claims, each with a pod; other namespaces have one claim."""

    names = _NAMES
    home = STORAGE
    protected = (_CLAIMS, STORAGE)
    seed_name = "claims"

    def create_objects(self, namespace: str) -> None:
        super().create_objects(namespace)
        if namespace != NAMESPACE:
            self._create(namespace, _NAMES[0])

    def create(self, name: str) -> None:
        self._create(STORAGE, name)

    def _create(self, namespace: str, name: str) -> None:
        objects = self.world.server.objects
        kind = self.world.kind(_CLAIMS)
        objects.create(kind, namespace, claim_json(name))
        objects.create(self.world.kind("pods"), namespace, pod_json(name))

    async def replace(self, name: str) -> None:
        places = [(_CLAIMS, STORAGE), ("pods", STORAGE)]
        claim_first = self._rng.random() < 0.7
        await self.delete_all(name, places, backwards=not claim_first)
        self.create(name)
