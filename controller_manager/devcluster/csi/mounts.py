"""The volumes on nodes: kubelets wait for them, mount them and resize them."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kubelet.events import Reporter
from controller_manager.devcluster.kubelet.node_status import is_stopped
from controller_manager.devcluster.registry.core.nodes import KIND as NODE
from controller_manager.devcluster.registry.core.pods import KIND as POD
from controller_manager.devcluster.registry.core.volumes import CLAIMS as CLAIM
from controller_manager.devcluster.registry.storage.csi import DRIVERS
from controller_manager.devcluster.storage import Key

from .driver import (
    RESIZE_SECONDS,
    Delays,
    StorageObjects,
    claim_name,
    claims_of,
    is_bound,
)
from .provisioner import needs_larger_file_system, other_conditions

_MOUNT_TIMEOUT: Final = 123.0
"""Seconds that a kubelet waits for volumes before it reports a failure and retries."""


class _Use(Struct, frozen=True):
    """The claims of a pod on a node, and the names of its attachable volumes."""

    pod: Key
    node: str
    claims: tuple[Key, ...]
    volumes: tuple[str, ...]


class Mounts:
    """Mounts the volumes of pods, and tells kubelets when they are mounted.

    A kubelet reports the volumes of its pods as in use, so that the controller does not
    detach them, and waits until its node lists them as attached. They are in use until
    the pod has ended, or until its kubelet works again if that was stopped. Another pod
    of the same name does not change that.
    """

    def __init__(self, storage: StorageObjects, report: Reporter) -> None:
        self._storage = storage
        self._nodes = storage.objects.storage.collection(NODE.resource)
        self._pods = storage.objects.storage.collection(POD.resource)
        self._report = report
        self._delays = Delays()
        self._uses: dict[str, _Use] = {}
        """The volumes in use, by the uid of the pod."""
        self._by_node: dict[str, dict[str, None]] = {}
        self._waiting: dict[Key, tuple[str | Key, ...]] = {}
        """For each pod that waits for its volumes, the node and the claims."""
        self._waiting_for: dict[str | Key, dict[Key, None]] = {}
        """The pods that wait, by node and by claim."""
        self._waiting_since: dict[Key, float] = {}

    def close(self) -> None:
        """Cancel the resizing of file systems."""
        self._delays.close()

    def prepare(self, pod: JSON) -> bool:
        """Mount the volumes of a pod on its node; tell whether all are mounted."""
        claims = claims_of(pod)
        if not claims:
            return True
        metadata, node = pod["metadata"], pod["spec"]["nodeName"]
        key = (metadata["namespace"], metadata["name"])
        volumes = self._volumes(claims)
        if volumes is None:
            self._wait(key, node, claims)
            return False
        self._use(metadata["uid"], _Use(key, node, tuple(claims), volumes))
        if not self._attached(node).issuperset(volumes):
            self._wait(key, node, claims)
            return False
        self._stop_waiting(key)
        for claim in claims:
            self._resize(claim, pod)
        return True

    def _wait(self, key: Key, node: str, claims: Sequence[Key]) -> None:
        now = self._storage.objects.clock.monotonic()
        self._waiting_since.setdefault(key, now)
        causes = self._waiting[key] = (node, *claims)
        for each in causes:
            self._waiting_for.setdefault(each, {})[key] = None

    def _stop_waiting(self, key: Key) -> None:
        self._waiting_since.pop(key, None)
        for each in self._waiting.pop(key, ()):
            pods = self._waiting_for.get(each, {})
            pods.pop(key, None)
            if not pods:
                self._waiting_for.pop(each, None)

    def _use(self, uid: str, use: _Use) -> None:
        """Report the volumes of a pod as in use."""
        if self._uses.get(uid) == use:
            return
        self._uses[uid] = use
        self._by_node.setdefault(use.node, {})[uid] = None
        self._report_in_use(use.node)

    def release(self, pod: JSON) -> None:
        """Unmount the volumes of a pod that has ended or is gone.

        A stopped kubelet unmounts nothing; `settle` does it later.
        """
        metadata = pod["metadata"]
        self._stop_waiting((metadata["namespace"], metadata["name"]))
        use = self._uses.get(metadata["uid"])
        if use is not None and not self._is_stopped(use.node):
            self._drop(metadata["uid"], use)

    def _drop(self, uid: str, use: _Use) -> None:
        del self._uses[uid]
        of_node = self._by_node[use.node]
        del of_node[uid]
        if not of_node:
            del self._by_node[use.node]
        self._report_in_use(use.node)

    def settle(self, node: str) -> None:
        """Catch up after the kubelet of a node was stopped.

        It unmounts the volumes of deleted pods, and resizes file systems.
        """
        for uid in list(self._by_node.get(node, ())):
            use = self._uses[uid]
            if self._pod(uid, use) is None:
                self._drop(uid, use)
                continue
            for claim in use.claims:
                self.claim_changed(claim)

    def _pod(self, uid: str, use: _Use) -> JSON | None:
        """Return the pod that uses volumes, `None` if it is gone."""
        stored = self._pods.get(use.pod)
        if stored is None or stored.obj["metadata"]["uid"] != uid:
            return None
        return stored.obj

    def report_late(self) -> None:
        """Report pods that have waited for their volumes for two minutes or more."""
        now = self._storage.objects.clock.monotonic()
        for key, since in list(self._waiting_since.items()):
            stored = self._pods.get(key)
            if stored is None or now - since < _MOUNT_TIMEOUT:
                continue
            self._waiting_since[key] = now
            if not self._is_stopped(stored.obj["spec"].get("nodeName", "")):
                self._report_late_mounts(stored.obj)

    def _report_late_mounts(self, pod: JSON) -> None:
        volumes = pod["spec"]["volumes"]
        names = " ".join(each["name"] for each in volumes if claim_name(pod, each))
        message = (
            f"Unable to attach or mount volumes: unmounted volumes=[{names}], "
            "unattached volumes=[], failed to process volumes=[]: context deadline "
            "exceeded"
        )
        self._report.other("kubelet", pod, "Warning", "FailedMount", message)

    def waiting_for(self, claim: Key) -> Sequence[Key]:
        """Return the pods that wait for the volume of a claim."""
        return list(self._waiting_for.get(claim, ()))

    def ready_on(self, node: str) -> Sequence[Key]:
        """Return the pods on a node whose volumes are attached now."""
        waiting = self._waiting_for.get(node)
        if not waiting:
            return ()
        attached = self._attached(node)
        uses = (self._uses[uid] for uid in self._by_node.get(node, ()))
        return [
            use.pod
            for use in uses
            if use.pod in waiting and attached.issuperset(use.volumes)
        ]

    def claim_changed(self, key: Key) -> None:
        """Resize the file system of a claim in the pods that use it."""
        claim = self._storage.claim(key)
        if claim is not None and needs_larger_file_system(claim):
            self._delays.call(key, RESIZE_SECONDS, self._resize_mounted)

    def _resize_mounted(self, key: Key) -> None:
        for uid, use in self._uses.items():
            if key not in use.claims or use.pod in self._waiting:
                continue
            pod = self._pod(uid, use)
            if pod is not None and not self._is_stopped(use.node):
                self._resize(key, pod)
                return

    def _volumes(self, claims: Sequence[Key]) -> tuple[str, ...] | None:
        """Return the attachable volumes of claims, `None` if some have no volume."""
        names = []
        for key in claims:
            claim = self._storage.claim(key)
            if claim is None or not is_bound(claim):
                return None
            volume = self._storage.volume(claim["spec"]["volumeName"])
            if volume is None:
                return None
            csi = volume["spec"].get("csi")
            if csi is not None and self._is_attachable(csi["driver"]):
                names.append(f"kubernetes.io/csi/{csi['driver']}^{csi['volumeHandle']}")
        return tuple(names)

    def _is_attachable(self, driver: str) -> bool:
        """Tell whether volumes of a driver need an attachment, which is the default."""
        if not self._storage.objects.has(DRIVERS, "", driver):
            return True
        found = self._storage.objects.find(DRIVERS, "", driver).obj
        return bool(found["spec"]["attachRequired"])

    def _attached(self, name: str) -> set[str]:
        """Return the volumes that a node lists as attached."""
        node = self._nodes.get(("", name))
        attached = node.obj["status"].get("volumesAttached") if node else None
        return {each["name"] for each in attached or ()}

    def _report_in_use(self, name: str) -> None:
        """Write the volumes in use to the status of a node."""
        node = self._nodes.get(("", name))
        if node is None:
            return
        uses = (self._uses[key] for key in self._by_node.get(name, ()))
        in_use = sorted({volume for use in uses for volume in use.volumes})
        status = {**node.obj["status"], "volumesInUse": in_use}
        if not in_use:
            del status["volumesInUse"]
        self._storage.update(NODE, node.obj, "status", status=status)

    def _resize(self, key: Key, pod: JSON) -> None:
        """Make the file system of a claim as large as its volume, if it is smaller."""
        claim = self._storage.claim(key)
        if claim is None or not needs_larger_file_system(claim):
            return
        name = claim["spec"]["volumeName"]
        volume = self._storage.volume(name)
        if volume is None:
            return
        status = {
            **claim["status"],
            "capacity": volume["spec"]["capacity"],
            "conditions": other_conditions(claim),
        }
        status.pop("allocatedResourceStatuses", None)
        if not status["conditions"]:
            del status["conditions"]  # Go leaves an empty list out
        self._storage.update(CLAIM, claim, "status", status=status)
        message = (
            f'MountVolume.NodeExpandVolume succeeded for volume "{name}" '
            f"{pod['spec']['nodeName']}"
        )
        reason = "FileSystemResizeSuccessful"
        self._report.other("kubelet", pod, "Normal", reason, message)

    def _is_stopped(self, name: str) -> bool:
        node = self._nodes.get(("", name))
        return node is not None and is_stopped(node.obj)
