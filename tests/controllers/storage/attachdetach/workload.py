"""Users, kubelets and a CSI driver use volumes: pods are created, deleted and moved."""

import asyncio
import random
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_micro_time, format_time
from controller_manager.controllers.storage.attachdetach.volumes import (
    attachment_name,
    csi_name,
)
from controller_manager.devcluster.kubelet.node_status import STOPPED
from tests.simulation.workload import Workload
from tests.simulation.world import NAMESPACE

if TYPE_CHECKING:
    from tests.simulation.world import World


DRIVER: Final = "disks.example.com"
HOME: Final = "attached-disks"
"""The namespace of the claims and pods."""

NODES: Final = ("disks-0", "disks-1")
VOLUMES: Final = ("disk-one", "disk-two", "disk-shared")

_ATTACHMENTS: Final = "volumeattachments"
_LEASES: Final = "kube-node-lease"
_MANAGED: Final = "volumes.kubernetes.io/controller-managed-attach-detach"
_FINALIZER: Final = "external-attacher/disks-example-com"
_PERIOD: Final = 2.0
"""Seconds between two syncs of the kubelets and of the driver."""

_BEAT: Final = 20.0
_UNMOUNTING: Final = 4.0

_RUNNING: Final[JSON] = {
    "phase": "Running",
    "containerStatuses": [
        {
            "name": "c",
            "image": "app:v1",
            "imageID": "",
            "ready": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
        }
    ],
}


def volumes_of(pod: JSON) -> list[str]:
    """Return the volumes of the driver that a pod of the workload uses."""
    claims = (
        each.get("persistentVolumeClaim", {}).get("claimName")
        for each in pod["spec"].get("volumes", ())
    )
    if pod["metadata"]["namespace"] != HOME:
        return []
    return [each for each in claims if each in VOLUMES]


def is_wanted(pod: JSON) -> bool:
    """Tell whether a pod still needs its volumes."""
    if pod.get("status", {}).get("phase") in {"Failed", "Succeeded"}:
        return False
    statuses = pod.get("status", {}).get("containerStatuses", ())
    runs = any("running" in each.get("state", {}) for each in statuses)
    return runs or "deletionTimestamp" not in pod["metadata"]


class VolumeUsers(Workload):
    """Users of three volumes on two nodes, with the kubelets and the driver."""

    def __init__(self, world: "World") -> None:
        super().__init__(world)
        self._rng = random.Random(f"volumes {world.seed}")
        self._driver = random.Random(f"driver {world.seed}")
        self._unused_since: dict[tuple[str, str], float] = {}
        self._pods = 0
        self.reports_use = True
        """The kubelets report the volumes that they use."""
        self._silent_until = dict.fromkeys(NODES, 0.0)

    def create_objects(self, namespace: str) -> None:
        if namespace != NAMESPACE:
            return
        self.world.create_namespace(HOME)
        for name in NODES:
            self._register(name)
        for name in VOLUMES:
            self._create_volume(name)
        self.world._start_task(self._play())

    # Users

    async def use(self, operations: int) -> None:
        rng = self._rng
        for _ in range(operations):
            await asyncio.sleep(rng.uniform(1, 60))
            pods = [each for each in self._home() if is_wanted(each)]
            match rng.choice(("come", "come", "go", "lose", "silent")):
                case "come" if len(pods) < 4:
                    self._run_pod(rng)
                case "lose":
                    self._lose(rng)
                case "silent" if rng.random() < 0.3:
                    self._silent_until[rng.choice(NODES)] = self._now + 600
                case _ if pods:
                    self.world.delete(
                        "pods", rng.choice(pods), grace=rng.choice((0, 5))
                    )

    async def clean_up(self) -> None:
        """Make all nodes ready, and delete every second pod."""
        self._silent_until = dict.fromkeys(NODES, 0.0)
        for pod in self._home()[::2]:
            self.world.delete("pods", pod, grace=0)

    def _run_pod(self, rng: random.Random) -> None:
        self._pods += 1
        claims = rng.sample(VOLUMES, rng.choice((1, 2)))
        self.run_pod(f"user-{self._pods}", rng.choice(NODES), *claims)

    def run_pod(self, name: str, node: str, *claims: str) -> None:
        """Create a pod on a node that uses volumes."""
        volumes = [
            {"name": each, "persistentVolumeClaim": {"claimName": each}}
            for each in claims
        ]
        pod = {
            "metadata": {"name": name},
            "spec": {
                "nodeName": node,
                "containers": [{"name": "c", "image": "app:v1"}],
                "volumes": volumes,
                "tolerations": [{"operator": "Exists"}],
            },
        }
        self.world.server.objects.create(self.world.kind("pods"), HOME, pod)

    def _lose(self, rng: random.Random) -> None:
        """Delete an attachment, as a user may do by mistake."""
        if found := self._attachments():
            self.world.delete(_ATTACHMENTS, rng.choice(found))

    def attach(self, volume: str, node: str) -> None:
        """Attach a volume to a node that uses it, as another leader and kubelet do."""
        world, unique = self.world, csi_name(DRIVER, volume)
        attachment = {
            "metadata": {"name": attachment_name(unique, node)},
            "spec": {
                "attacher": DRIVER,
                "nodeName": node,
                "source": {"persistentVolumeName": volume},
            },
        }
        world.server.objects.create(world.kind(_ATTACHMENTS), "", attachment)
        attached: JSON = {"attached": True}
        name = attachment_name(unique, node)
        self._edit(_ATTACHMENTS, name, lambda obj: obj.update(status=attached))
        uses = {"volumesInUse": [unique], "volumesAttached": [_listed(unique)]}
        self._edit("nodes", node, lambda obj: obj["status"].update(uses))

    def delete_attachment(self, volume: str) -> None:
        """Delete the attachments of a volume, as an administrator does."""
        for each in self._attachments():
            if each["spec"]["source"].get("persistentVolumeName") == volume:
                self.world.delete(_ATTACHMENTS, each)

    # The cluster

    @property
    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _home(self) -> list[JSON]:
        return self.world.stored("pods", HOME)

    def _attachments(self) -> list[JSON]:
        return [
            each
            for each in self.world.stored(_ATTACHMENTS)
            if each["spec"]["attacher"] == DRIVER
        ]

    def _register(self, name: str) -> None:
        """Create a node for these pods only, without a simulated kubelet."""
        annotations = {_MANAGED: "true", STOPPED: "true"}
        metadata = {"name": name, "annotations": annotations}
        taint = {"key": "disks.example.com/only", "effect": "NoSchedule"}
        node = {"metadata": metadata, "spec": {"taints": [taint]}}
        self.world.server.objects.create(self.world.kind("nodes"), "", node)

    def _create_volume(self, name: str) -> None:
        objects, mode = self.world.server.objects, "ReadWriteOnce"
        if "shared" in name:
            mode = "ReadWriteMany"
        size = {"storage": "1Gi"}
        claim = {
            "metadata": {"name": name},
            "spec": {
                "accessModes": [mode],
                "resources": {"requests": size},
                "storageClassName": "",
                "volumeName": name,
            },
        }
        stored = objects.create(self.world.kind("persistentvolumeclaims"), HOME, claim)
        metadata = stored.obj["metadata"]
        reference = {
            "kind": "PersistentVolumeClaim",
            "apiVersion": "v1",
            "namespace": HOME,
            "name": name,
            "uid": metadata["uid"],
        }
        spec = {
            "accessModes": [mode],
            "capacity": size,
            "claimRef": reference,
            "csi": {"driver": DRIVER, "volumeHandle": name},
            "persistentVolumeReclaimPolicy": "Retain",
        }
        volume = {"metadata": {"name": name}, "spec": spec}
        objects.create(self.world.kind("persistentvolumes"), "", volume)
        bound = {"phase": "Bound", "accessModes": [mode], "capacity": size}
        self.world.change(
            "persistentvolumeclaims",
            stored.obj,
            lambda obj: obj.update(status=bound),
            "status",
        )

    async def _play(self) -> None:
        """Play the kubelets and the driver."""
        beat_at = 0.0
        while True:
            if self._now >= beat_at:
                beat_at = self._now + _BEAT
                for name in NODES:
                    self._beat(name)
            for name in NODES:
                self._report_use(name)
            self._run_pods()
            for attachment in self._attachments():
                self._drive(attachment)
            await asyncio.sleep(_PERIOD)

    def _beat(self, name: str) -> None:
        """Renew the lease of a node, and post that it is ready."""
        if self._now < self._silent_until[name]:
            return
        world, now = self.world, self.world.clock.now()
        spec = {"holderIdentity": name, "renewTime": format_micro_time(now)}
        lease = world.find("leases", _LEASES, name)
        if lease is None:
            body = {"metadata": {"name": name}, "spec": spec}
            world.server.objects.create(world.kind("leases"), _LEASES, body)
        else:
            world.change("leases", lease, lambda obj: obj.update(spec=spec))
        self._edit("nodes", name, lambda node: _post(node, format_time(now)))

    def _report_use(self, name: str) -> None:
        """Report the volumes of a node's pods, and the volumes not unmounted yet."""
        if self._now < self._silent_until[name] or not self.reports_use:
            return
        node = self.world.find("nodes", "", name)
        if node is None:
            return
        # A kubelet unmounts the volumes of a pod that has ended.
        pods = [
            each
            for each in self._home()
            if each["spec"].get("nodeName") == name
            and each["status"].get("phase") not in ("Failed", "Succeeded")
        ]
        wanted = {csi_name(DRIVER, each) for pod in pods for each in volumes_of(pod)}
        used = set(node["status"].get("volumesInUse") or ())
        stays = {each for each in used - wanted if not self._is_unmounted(name, each)}
        for each in wanted:
            self._unused_since.pop((name, each), None)
        if used != wanted | stays:
            report = {"volumesInUse": sorted(wanted | stays) or None}
            self._edit("nodes", name, lambda obj: obj["status"].update(report))

    def _run_pods(self) -> None:
        """Run the pods whose volumes are listed; end pods deleted some time ago."""
        for pod in self._home():
            if "deletionTimestamp" in pod["metadata"]:
                if self._driver.random() < 0.3:
                    self.world.delete("pods", pod, grace=0)
            elif "containerStatuses" not in pod["status"] and self._has_volumes(pod):
                self.world.change(
                    "pods", pod, lambda obj: obj["status"].update(_RUNNING), "status"
                )

    def _has_volumes(self, pod: JSON) -> bool:
        node = self.world.find("nodes", "", pod["spec"]["nodeName"])
        listed = node["status"].get("volumesAttached") if node is not None else ()
        needed = {csi_name(DRIVER, each) for each in volumes_of(pod)}
        return needed <= {each["name"] for each in listed or ()}

    def _is_unmounted(self, node: str, volume: str) -> bool:
        since = self._unused_since.setdefault((node, volume), self._now)
        return self._now >= since + _UNMOUNTING

    def _drive(self, attachment: JSON) -> None:
        """Attach or detach a volume, some time after the request."""
        name, metadata = attachment["metadata"]["name"], attachment["metadata"]
        finalizers = metadata.get("finalizers") or []
        if self._driver.random() < 0.4:
            return
        if "deletionTimestamp" in metadata:
            self._edit(
                _ATTACHMENTS,
                name,
                lambda obj: obj["metadata"].update(
                    finalizers=_without(finalizers, _FINALIZER)
                ),
                subresource="",
            )
        elif _FINALIZER not in finalizers:
            self._edit(
                _ATTACHMENTS,
                name,
                lambda obj: obj["metadata"].update(
                    finalizers=[*finalizers, _FINALIZER]
                ),
                subresource="",
            )
        elif not attachment["status"].get("attached"):
            status: JSON = {"attached": True}
            if self._driver.random() < 0.2:
                status = {"attached": False, "attachError": {"message": "no disk"}}
            self._edit(_ATTACHMENTS, name, lambda obj: obj.update(status=status))

    def _edit(
        self,
        plural: str,
        name: str,
        edit: Callable[[JSON], Any],
        subresource: str = "status",
    ) -> None:
        found = self.world.find(plural, "", name)
        if found is not None:
            self.world.change(plural, found, edit, subresource)


def _post(node: JSON, now: str) -> None:
    """Post that a node is ready."""
    known = node["status"].get("conditions") or [{}]
    since = known[0].get("lastTransitionTime", now)
    if known[0].get("status") != "True":
        since = now
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": now}
    node["status"]["conditions"] = [{**ready, "lastTransitionTime": since}]


def _listed(unique: str) -> JSON:
    """Return the entry of a volume in the list of a node."""
    return {"name": unique, "devicePath": ""}


def _without(items: Iterable[str], item: str) -> list[str]:
    return [each for each in items if each != item]
