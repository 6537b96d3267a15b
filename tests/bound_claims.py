"""Binds all claims, for tests that are not about volumes.

It replaces the controllers that bind claims, and the provisioners. Its volumes need no
attachments.
"""

from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.genericapiserver import GenericAPIServer
from controller_manager.devcluster.registry.core.volumes import CLAIMS as CLAIM
from controller_manager.devcluster.registry.core.volumes import VOLUMES as VOLUME

_ANNOTATIONS: Final = (
    "pv.kubernetes.io/bind-completed",
    "pv.kubernetes.io/bound-by-controller",
)


async def bind_claims(server: GenericAPIServer) -> None:
    """Give each claim a volume of its own, until cancelled."""
    collection = server.storage.collection(CLAIM.resource)
    watcher = collection.watch(collection.version)
    for each in list(collection):
        _bind(server, each.obj)
    try:
        while True:
            await watcher.wait()
            for change in watcher.take():
                stored = collection.get(change.key)
                if stored is not None:
                    _bind(server, stored.obj)
    finally:
        watcher.close()


def _bind(server: GenericAPIServer, claim: JSON) -> None:
    metadata, spec = claim["metadata"], claim["spec"]
    if spec.get("volumeName") or "deletionTimestamp" in metadata:
        return
    namespace, name = metadata["namespace"], metadata["name"]
    capacity, modes = spec["resources"]["requests"], spec["accessModes"]
    volume = f"volume-{metadata['uid']}"
    reference = {"namespace": namespace, "name": name, "uid": metadata["uid"]}
    body = {
        "metadata": {"name": volume},
        "spec": {
            "accessModes": modes,
            "capacity": capacity,
            "claimRef": {"kind": "PersistentVolumeClaim", **reference},
            "hostPath": {"path": "/data"},
        },
    }
    objects = server.objects
    objects.create(VOLUME, "", body)
    annotations = {**metadata.get("annotations", {})}
    annotations |= dict.fromkeys(_ANNOTATIONS, "yes")
    bound = {
        **claim,
        "metadata": {**metadata, "annotations": annotations},
        "spec": {**spec, "volumeName": volume},
    }
    claim = objects.update(CLAIM, namespace, name, bound).obj
    status = {"phase": "Bound", "accessModes": modes, "capacity": capacity}
    objects.update(CLAIM, namespace, name, {**claim, "status": status}, "status")
