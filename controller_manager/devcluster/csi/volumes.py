"""The provisioner and resizer of volumes, and the mounts of kubelets."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from controller_manager.api.json_objects import JSON
from controller_manager.api.quantity import parse_quantity
from controller_manager.devcluster.apiserver.strategy import Deletion
from controller_manager.devcluster.kubelet.events import Reporter
from controller_manager.devcluster.kubelet.node_status import is_stopped
from controller_manager.devcluster.registry.core.cluster import NODES as NODE
from controller_manager.devcluster.registry.core.pods import KIND as POD
from controller_manager.devcluster.registry.core.volumes import CLAIMS as CLAIM
from controller_manager.devcluster.registry.core.volumes import VOLUMES as VOLUME
from controller_manager.devcluster.registry.storage import ATTRIBUTES_CLASSES, DRIVERS
from controller_manager.devcluster.storage import Change, Key, key_of

from .driver import (
    DRIVER,
    ON_DEMAND,
    PROVISIONED_BY,
    RESIZE_SECONDS,
    SELECTED_NODE,
    STORAGE_PROVISIONER,
    Delays,
    StorageObjects,
    Waiting,
    annotation,
    capacity_of,
    claim_name,
    claims_of,
    is_bound,
    is_ours,
    reference_to,
    request_of,
)

# The external provisioner: makes the volumes of claims, and deletes them.

FINALIZER: Final = "external-provisioner.volume.kubernetes.io/finalizer"

_COMPONENT: Final = f"{DRIVER}_external-provisioner"


class Provisioner:
    """Makes the volumes that claims ask the driver for, and deletes released ones."""

    def __init__(self, storage: StorageObjects, report: Reporter) -> None:
        self._storage = storage
        self._report = report

    def claim_changed(self, change: Change) -> None:
        """Make the volume of a claim that waits for one."""
        claim = self._storage.claim(change.key)
        if claim is None or not _is_asked_for(claim):
            return
        found = self._storage.class_of(claim)
        if found is None or found["provisioner"] != DRIVER:
            return
        waits = found["volumeBindingMode"] == ON_DEMAND
        if waits and not annotation(claim, SELECTED_NODE):
            return
        if self._storage.volume(_name(claim)) is None:
            self._provision(claim, found)

    def volume_changed(self, change: Change) -> None:
        """Delete a volume that is released, and keep the finalizer of another."""
        volume = self._storage.volume(change.key[1])
        if volume is None or annotation(volume, PROVISIONED_BY) != DRIVER:
            return
        deletes = volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete"
        if deletes and volume["status"].get("phase") in ("Released", "Failed"):
            self._delete(volume)
        elif "deletionTimestamp" not in volume["metadata"] or not deletes:
            self._storage.set_finalizer(VOLUME, volume, FINALIZER, present=deletes)

    def _provision(self, claim: JSON, found: JSON) -> None:
        metadata = claim["metadata"]
        if claim["spec"].get("selector"):
            why = (
                "failed to provision volume with StorageClass "
                f'"{found["metadata"]["name"]}": claim Selector is not supported'
            )
            self._record(claim, "Warning", "ProvisioningFailed", why)
            return
        full_name = f"{metadata['namespace']}/{metadata['name']}"
        message = f'External provisioner is provisioning volume for claim "{full_name}"'
        self._record(claim, "Normal", "Provisioning", message)
        volume = _new_volume(claim, found)
        self._storage.objects.create(VOLUME, "", volume)
        message = f"Successfully provisioned volume {volume['metadata']['name']}"
        self._record(claim, "Normal", "ProvisioningSucceeded", message)

    def _delete(self, volume: JSON) -> None:
        name = volume["metadata"]["name"]
        if "deletionTimestamp" not in volume["metadata"]:
            self._storage.objects.delete(VOLUME, "", name, Deletion())
        if (left := self._storage.volume(name)) is not None:
            self._storage.set_finalizer(VOLUME, left, FINALIZER, present=False)

    def _record(self, claim: JSON, kind: str, reason: str, message: str) -> None:
        self._report.other(_COMPONENT, claim, kind, reason, message)


def _new_volume(claim: JSON, found: JSON) -> JSON:
    """Return the volume for a claim, with the settings of its class."""
    spec, name = claim["spec"], _name(claim)
    volume: JSON = {
        "capacity": {"storage": request_of(claim)},
        "csi": {"driver": DRIVER, "volumeHandle": name},
        "accessModes": spec.get("accessModes", []),
        "claimRef": reference_to(claim),
        "persistentVolumeReclaimPolicy": found["reclaimPolicy"],
        "storageClassName": found["metadata"]["name"],
        "volumeMode": spec.get("volumeMode", "Filesystem"),
    }
    if options := found.get("mountOptions"):
        volume["mountOptions"] = options
    if attributes := spec.get("volumeAttributesClassName"):
        volume["volumeAttributesClassName"] = attributes
    annotations = {
        PROVISIONED_BY: DRIVER,
        "volume.kubernetes.io/provisioner-deletion-secret-name": "",
        "volume.kubernetes.io/provisioner-deletion-secret-namespace": "",
    }
    finalizers = [FINALIZER] if found["reclaimPolicy"] == "Delete" else []
    metadata = {"name": name, "annotations": annotations, "finalizers": finalizers}
    return {"metadata": metadata, "spec": volume}


def _name(claim: JSON) -> str:
    return f"pvc-{claim['metadata']['uid']}"


def _is_asked_for(claim: JSON) -> bool:
    return (
        annotation(claim, STORAGE_PROVISIONER) == DRIVER
        and not claim["spec"].get("volumeName")
        and "deletionTimestamp" not in claim["metadata"]
    )


# The external resizer: makes volumes as large as their claims, and modifies them.

RESIZING: Final = "Resizing"
FILE_SYSTEM_PENDING: Final = "FileSystemResizePending"

_RESIZER: Final = f"external-resizer {DRIVER}"
_ATTRIBUTES: Final = "volumeAttributesClassName"
_WAITING: Final = (
    "Waiting for user to (re-)start a pod to finish file system resize of volume on "
    "node."
)


class Resizer:
    """Resizes and modifies the volumes of the driver."""

    def __init__(self, storage: StorageObjects, report: Reporter) -> None:
        self._storage = storage
        self._report = report
        self._delays = Delays()

    def close(self) -> None:
        """Cancel the resizing of volumes."""
        self._delays.close()

    def claim_changed(self, change: Change) -> None:
        """Give a bound claim the size and the attributes that it asks for."""
        found = self._bound(change.key)
        if found is None:
            return
        claim, volume = found
        wanted = request_of(claim)
        if parse_quantity(wanted) > capacity_of(volume):
            self._begin(claim, volume, wanted)
            self._delays.call(change.key, RESIZE_SECONDS, self._expand)
        elif claim["spec"].get(_ATTRIBUTES):
            self._modify(claim, volume)

    def _bound(self, key: Key) -> tuple[JSON, JSON] | None:
        claim = self._storage.claim(key)
        if claim is None or not is_bound(claim):
            return None
        volume = self._storage.volume(claim["spec"]["volumeName"])
        if volume is None or not is_ours(volume):
            return None
        return claim, volume

    def _begin(self, claim: JSON, volume: JSON, wanted: str) -> None:
        """Write the condition and the event of a resize, unless they exist."""
        if claim["status"].get("allocatedResources") == {"storage": wanted}:
            return
        message = f"External resizer is resizing volume {volume['metadata']['name']}"
        self._record(claim, "Normal", "Resizing", message)
        self._storage.update(
            CLAIM, claim, "status", status=self._expanding(claim, wanted)
        )

    def _expand(self, key: Key) -> None:
        found = self._bound(key)
        if found is None:
            return
        claim, volume = found
        wanted, spec = request_of(claim), volume["spec"]
        if parse_quantity(wanted) <= capacity_of(volume):
            return
        capacity = {**spec["capacity"], "storage": wanted}
        self._storage.update(VOLUME, volume, spec={**spec, "capacity": capacity})
        message = "Require file system resize of volume on node"
        self._record(claim, "Normal", "FileSystemResizeRequired", message)
        self._storage.update(CLAIM, claim, "status", status=self._pending(claim))

    def _expanding(self, claim: JSON, wanted: str) -> JSON:
        return {
            **claim["status"],
            "allocatedResources": {"storage": wanted},
            "allocatedResourceStatuses": {"storage": "ControllerResizeInProgress"},
            "conditions": [*_other_conditions(claim), self._condition(RESIZING)],
        }

    def _pending(self, claim: JSON) -> JSON:
        condition = self._condition(FILE_SYSTEM_PENDING, message=_WAITING)
        return {
            **claim["status"],
            "allocatedResourceStatuses": {"storage": "NodeResizePending"},
            "conditions": [*_other_conditions(claim), condition],
        }

    def _condition(self, type_: str, **more: str) -> JSON:
        now = self._storage.now()
        return {"type": type_, "status": "True", "lastTransitionTime": now, **more}

    def _modify(self, claim: JSON, volume: JSON) -> None:
        wanted, status = claim["spec"][_ATTRIBUTES], claim["status"]
        if status.get("currentVolumeAttributesClassName") == wanted:
            return
        found = self._storage.objects.has(ATTRIBUTES_CLASSES, "", wanted)
        if not found:
            resource = ATTRIBUTES_CLASSES.resource
            why = f'{resource} "{wanted}" not found'
            self._record(claim, "Warning", "VolumeModifyFailed", why)
            return
        spec = {**volume["spec"], _ATTRIBUTES: wanted}
        self._storage.update(VOLUME, volume, spec=spec)
        status = {**status, "currentVolumeAttributesClassName": wanted}
        self._storage.update(CLAIM, claim, "status", status=status)
        name = claim["metadata"]["name"]
        message = (
            f"external resizer modified volume {name} with vac {wanted} successfully"
        )
        self._record(claim, "Normal", "VolumeModifySuccessful", message)

    def _record(self, claim: JSON, kind: str, reason: str, message: str) -> None:
        self._report.other(_RESIZER, claim, kind, reason, message)


def _other_conditions(claim: JSON) -> list[JSON]:
    """Return the conditions of a claim that are not about its size."""
    return [
        each
        for each in claim.get("status", {}).get("conditions") or ()
        if each["type"] not in (RESIZING, FILE_SYSTEM_PENDING)
    ]


def _needs_larger_file_system(claim: JSON) -> bool:
    conditions = claim.get("status", {}).get("conditions") or ()
    return any(each["type"] == FILE_SYSTEM_PENDING for each in conditions)


# The volumes on nodes: kubelets wait for them, mount them and resize them.

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
        self._waiting = Waiting()
        """The pods that wait for their volumes, by node and by claim."""
        self._waiting_since: dict[Key, float] = {}

    def close(self) -> None:
        """Cancel the resizing of file systems."""
        self._delays.close()

    def prepare(self, pod: JSON) -> bool:
        """Mount the volumes of a pod on its node; tell whether all are mounted."""
        claims = claims_of(pod)
        if not claims:
            return True
        key, node = key_of(pod), pod["spec"]["nodeName"]
        volumes = self._volumes(claims)
        if volumes is None:
            self._wait(key, node, claims)
            return False
        self._use(pod["metadata"]["uid"], _Use(key, node, tuple(claims), volumes))
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
        self._waiting.add(key, (node, *claims))

    def _stop_waiting(self, key: Key) -> None:
        self._waiting_since.pop(key, None)
        self._waiting.discard(key)

    def _use(self, uid: str, use: _Use) -> None:
        if self._uses.get(uid) == use:
            return
        self._uses[uid] = use
        self._by_node.setdefault(use.node, {})[uid] = None
        self._report_in_use(use.node)

    def release(self, pod: JSON) -> None:
        """Unmount the volumes of a pod that has ended or is gone.

        A stopped kubelet unmounts nothing; `settle` does it later.
        """
        self._stop_waiting(key_of(pod))
        uid = pod["metadata"]["uid"]
        use = self._uses.get(uid)
        if use is not None and not self._is_stopped(use.node):
            self._drop(uid, use)

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
        return self._waiting.waiting_for(claim)

    def ready_on(self, node: str) -> Sequence[Key]:
        """Return the pods on a node whose volumes are attached now."""
        waiting = self._waiting.waiting_for(node)
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
        if claim is not None and _needs_larger_file_system(claim):
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
        if not self._storage.objects.has(DRIVERS, "", driver):
            return True
        found = self._storage.objects.find(DRIVERS, "", driver).obj
        return bool(found["spec"]["attachRequired"])

    def _attached(self, name: str) -> set[str]:
        node = self._nodes.get(("", name))
        attached = node.obj["status"].get("volumesAttached") if node else None
        return {each["name"] for each in attached or ()}

    def _report_in_use(self, name: str) -> None:
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
        if claim is None or not _needs_larger_file_system(claim):
            return
        name = claim["spec"]["volumeName"]
        volume = self._storage.volume(name)
        if volume is None:
            return
        status = {
            **claim["status"],
            "capacity": volume["spec"]["capacity"],
            "conditions": _other_conditions(claim),
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
