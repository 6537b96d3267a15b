"""A cluster with nodes, bound claims and pods, and a driver that attaches by hand."""

import asyncio
import copy
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final

from controller_manager.api.json_objects import JSON
from controller_manager.controllers.storage.attachdetach import AttachDetachOptions
from controller_manager.controllers.storage.attachdetach.volumes import (
    attachment_name,
    csi_name,
)
from controller_manager.devcluster.apiserver.strategy import Deletion
from controller_manager.options.config import Config
from tests.clusters import Cluster, RecordingTransport, make_config

DRIVER: Final = "csi.example.com"
MANAGED: Final = {"volumes.kubernetes.io/controller-managed-attach-detach": "true"}
READY: Final = {"type": "Ready", "status": "True"}


def config(**flags: Any) -> Config:
    """Return a config that runs the attach-detach controller only, with its flags."""
    names = ("persistentvolume-attach-detach-controller",)
    made = make_config(controllers=names, use_service_account_credentials=True)
    return replace(
        made, controllers={AttachDetachOptions: AttachDetachOptions(**flags)}
    )


class Storage(Cluster):
    """A cluster whose objects tests change as the kubelet and the driver do."""

    def node(self, name: str, **parts: Any) -> None:
        """Add a node that is ready and leaves attaching to the controller."""
        parts.setdefault("status", {"conditions": [READY]})
        metadata = {"name": name, "annotations": parts.pop("annotations", MANAGED)}
        self.add("Node", name, metadata=metadata, **parts)

    def volume(self, name: str, mode: str = "ReadWriteOnce", **source: Any) -> None:
        """Add a volume of the driver, and the claim of the same name bound to it."""
        reference = {"kind": "PersistentVolumeClaim", "name": name}
        self.add(
            "PersistentVolumeClaim",
            name,
            spec={
                "accessModes": [mode],
                "resources": {"requests": {"storage": "1Gi"}},
                "volumeName": name,
            },
            status={"phase": "Bound"},
        )
        uid = self.stored("persistentvolumeclaims", name)["metadata"]["uid"]
        where = source or {"csi": {"driver": DRIVER, "volumeHandle": name}}
        self.add(
            "PersistentVolume",
            name,
            spec={
                "accessModes": [mode],
                "capacity": {"storage": "1Gi"},
                "claimRef": {**reference, "namespace": "default", "uid": uid},
                **where,
            },
        )

    def pod(self, name: str, node: str, *claims: str, **volume: Any) -> None:
        """Add a pod on a node that uses claims, or a volume that it defines itself."""
        volumes = [
            {"name": claim, "persistentVolumeClaim": {"claimName": claim}}
            for claim in claims
        ]
        if volume:
            volumes.append({"name": "own", **volume})
        spec = {
            "nodeName": node,
            "containers": [{"name": "c", "image": "app:v1"}],
            "volumes": volumes,
        }
        self.add("Pod", name, spec=spec)

    def attached(self, volume: str, node: str, **status: Any) -> None:
        """Have the driver report an attachment; by default, that it is attached."""
        name = self.name(volume, node)
        self.edit(
            "volumeattachments",
            name,
            lambda obj: obj.update(status=status or {"attached": True}),
            "status",
        )

    def name(self, volume: str, node: str) -> str:
        """Return the name of the attachment of a volume of the driver."""
        return attachment_name(csi_name(DRIVER, volume), node)

    def in_use(self, node: str, *volumes: str) -> None:
        """Have the kubelet of a node report the volumes that it uses."""
        names = [csi_name(DRIVER, each) for each in volumes]
        self.edit(
            "nodes",
            node,
            lambda obj: obj["status"].update(volumesInUse=names),
            "status",
        )

    def not_ready(self, node: str) -> None:
        """Make a node not ready."""
        condition = {"type": "Ready", "status": "Unknown"}
        self.edit(
            "nodes",
            node,
            lambda obj: obj["status"].update(conditions=[condition]),
            "status",
        )

    def taint(self, node: str) -> None:
        """Declare that nothing runs on a node any more."""
        key = "node.kubernetes.io/out-of-service"
        taint = {"key": key, "value": "nodeshutdown", "effect": "NoExecute"}
        self.edit("nodes", node, lambda obj: obj["spec"].update(taints=[taint]))

    def edit(self, plural: str, name: str, change: Any, subresource: str = "") -> None:
        """Change a stored object."""
        kind, namespace = self._kind(plural)
        obj = self.stored(plural, name)
        change(obj)
        self.server.objects.update(kind, namespace, name, obj, subresource)

    def remove(self, plural: str, name: str) -> None:
        """Delete an object at once."""
        kind, namespace = self._kind(plural)
        self.server.objects.delete(kind, namespace, name, Deletion(grace_period=0))

    def drop(self, plural: str, name: str) -> None:
        """Remove an object, although finalizers may protect it."""
        kind, namespace = self._kind(plural)
        self.server.storage.collection(kind.resource).remove((namespace, name))

    def stored(self, plural: str, name: str) -> JSON:
        """Return a copy of a stored object."""
        kind, namespace = self._kind(plural)
        return copy.deepcopy(self.server.objects.find(kind, namespace, name).obj)

    def attachments(self) -> list[tuple[str, str, bool]]:
        """Return source, node and state of each attachment."""
        found = []
        for obj in self.all("volumeattachments"):
            source = obj["spec"]["source"]
            inline = source.get("inlineVolumeSpec", {}).get("csi", {})
            volume = source.get("persistentVolumeName") or inline.get("volumeHandle")
            found.append((volume, obj["spec"]["nodeName"], obj["status"]["attached"]))
        return sorted(found)

    def listed(self, node: str) -> list[str]:
        """Return the handles of the volumes that a node lists as attached."""
        status = self.stored("nodes", node)["status"]
        names = [each["name"] for each in status.get("volumesAttached") or ()]
        return [each.partition("^")[2] or each for each in names]

    def events(self) -> list[str]:
        """Return the events, each once."""
        return sorted(
            f"{each['involvedObject']['name']} {each['type']} {each['reason']} "
            f"[{each['source']['component']}]: {each['message']}"
            for each in self.all("events")
        )

    def all(self, plural: str) -> list[JSON]:
        """Return all objects of a kind."""
        kind, _ = self._kind(plural)
        return [each.obj for each in self.server.storage.collection(kind.resource)]

    def _kind(self, plural: str) -> tuple[Any, str]:
        group = (
            "storage.k8s.io" if plural in {"volumeattachments", "csidrivers"} else ""
        )
        kind = self.server.catalogue.find(group, "v1", plural)
        assert kind is not None
        return kind, "default" if kind.namespaced else ""


@asynccontextmanager
async def running(
    cluster: Storage, **flags: Any
) -> AsyncGenerator[RecordingTransport, None]:
    """Run the controller while entered, as its own account, on a cluster at rest."""
    async with cluster.confined_manager(config(**flags)) as recording:
        await asyncio.sleep(1)
        yield recording
