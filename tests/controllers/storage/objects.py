"""A cluster with claims, volumes and pods."""

from dataclasses import dataclass
from typing import Any, Final

from controller_manager.api.core.claims import CLAIMS
from controller_manager.api.core.v1 import PODS
from controller_manager.api.core.volumes import PERSISTENT_VOLUMES
from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.errors import TransportError
from controller_manager.client.rest.transport import Request, Response
from tests.controllers.hands import Hands
from tests.runtime.silence import SilentWatches

DRIVER: Final = "csi.example.com"
SIZE: Final = {"storage": "1Gi"}


class Storage(Hands):
    """A cluster to which a test adds claims, volumes and pods; `None` leaves a field.

    By default claims and volumes are for one writer and 1 GiB, and volumes are kept.
    """

    def claim(
        self,
        name: str = "data",
        status: JSON | None = None,
        metadata: JSON | None = None,
        **spec: Any,
    ) -> None:
        known = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": SIZE}}
        fields = _present(known | spec)
        self.put(CLAIMS, name, metadata=metadata or {}, spec=fields, status=status)

    def volume(
        self,
        name: str = "data",
        status: JSON | None = None,
        source: JSON | None = None,
        **spec: Any,
    ) -> None:
        known = {
            "accessModes": ["ReadWriteOnce"],
            "capacity": SIZE,
            "persistentVolumeReclaimPolicy": "Retain",
            **(source or {"csi": {"driver": DRIVER, "volumeHandle": name}}),
        }
        self.put(PERSISTENT_VOLUMES, name, spec=_present(known | spec), status=status)

    def bound(
        self,
        name: str = "data",
        source: JSON | None = None,
        metadata: JSON | None = None,
        **both: Any,
    ) -> None:
        """Add a claim and a volume of that name that are bound to each other."""
        status = {"phase": "Bound", "capacity": SIZE}
        self.claim(name, status, metadata, volumeName=name, **both)
        reference = self.reference(name)
        self.volume(name, {"phase": "Bound"}, source, claimRef=reference, **both)

    def reference(self, claim: str = "data", **changes: str) -> JSON:
        """Return a reference of a volume to a claim."""
        uid = self.stored(CLAIMS, claim)["metadata"]["uid"]
        reference = {"kind": "PersistentVolumeClaim", "namespace": "default"}
        return {**reference, "name": claim, "uid": uid, **changes}

    def pod(
        self, name: str, *claims: str, metadata: JSON | None = None, **spec: Any
    ) -> str:
        """Add a pod with these claims as volumes; return its uid."""
        volumes = [
            {"name": each, "persistentVolumeClaim": {"claimName": each}}
            for each in claims
        ]
        containers = [{"name": "c", "image": "app:v1"}]
        fields = {"containers": containers, "volumes": volumes, **spec}
        made = self.put(PODS, name, metadata=metadata or {}, spec=fields)
        return str(made["metadata"]["uid"])

    def set_status(self, pod: str, **status: Any) -> None:
        self.edit(PODS, pod, status=status)


def owned_by(pod: str, uid: str) -> JSON:
    """Return the metadata of a claim that a pod controls."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid}
    return {"ownerReferences": [{**owner, "controller": True}]}


def ephemeral(name: str) -> JSON:
    """Return a volume of a pod with a template of a claim."""
    resources = {"requests": SIZE}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": resources}
    return {"name": name, "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}


def _present(spec: JSON) -> JSON:
    return {key: value for key, value in spec.items() if value is not None}


@dataclass
class CrashesAt(SilentWatches):
    """Ends a process at its n-th write, before or after it is stored: nothing more."""

    left: int = 1
    stores: bool = False

    async def request(self, request: Request) -> Response:
        self.left -= request.method != "GET" and not request.path.endswith("/events")
        if self.left > 0:
            return await self.inner.request(request)
        if self.left == 0 and self.stores:
            await self.inner.request(request)
        self.left = -1
        raise TransportError(request.path)
