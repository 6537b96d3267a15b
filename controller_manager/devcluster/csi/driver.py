"""The CSI driver of the development cluster: claims, classes, delays, attachments."""

import asyncio
from collections.abc import Callable, Collection, Hashable, Iterator
from typing import Any, Final

import msgspec

from controller_manager.api.json_objects import JSON
from controller_manager.api.quantity import Quantity, parse_quantity
from controller_manager.api.scalars import format_time
from controller_manager.api.selectors import LabelSelector, compile_selector
from controller_manager.devcluster.apiserver.kind import Kind
from controller_manager.devcluster.apiserver.objects import Objects
from controller_manager.devcluster.registry.core.volumes import CLAIMS as CLAIM
from controller_manager.devcluster.registry.core.volumes import VOLUMES as VOLUME
from controller_manager.devcluster.registry.storage import (
    ATTACHMENTS,
    IS_DEFAULT,
    STORAGE_CLASSES,
)
from controller_manager.devcluster.storage import Change, Key, key_of

# Delays the work of the driver, as on a real cluster, so that users can see it.

RESIZE_SECONDS: Final = 1.0
"""The seconds to resize a volume, and then its file system."""


class Delays:
    """Calls functions later, at most one for each key."""

    def __init__(self) -> None:
        """Begin without calls."""
        self._timers: dict[Key, asyncio.TimerHandle] = {}

    def call(self, key: Key, seconds: float, function: Callable[[Key], None]) -> None:
        """Call a function with its key, unless a call with that key is due already."""
        if key not in self._timers:
            loop = asyncio.get_running_loop()
            timer = loop.call_later(seconds, self._call, key, function)
            self._timers[key] = timer

    def close(self) -> None:
        """Cancel all calls."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _call(self, key: Key, function: Callable[[Key], None]) -> None:
        del self._timers[key]
        function(key)


class Waiting:
    """The pods that wait, with an index by the causes for which they wait."""

    def __init__(self) -> None:
        self._causes: dict[Key, Collection[Hashable]] = {}
        self._by_cause: dict[Hashable, dict[Key, None]] = {}

    def __contains__(self, key: object) -> bool:
        """Tell whether a pod waits."""
        return key in self._causes

    def __len__(self) -> int:
        """Return the number of pods that wait."""
        return len(self._causes)

    def __iter__(self) -> Iterator[Key]:
        """Iterate over a snapshot, beginning with the pod that waits longest."""
        return iter(list(self._causes))

    def add(self, key: Key, causes: Collection[Hashable]) -> None:
        """Remember that a pod waits, and its causes, such as claims."""
        for each in self._causes.get(key, ()):
            if each not in causes:
                self._remove(key, each)
        self._causes[key] = causes
        for each in causes:
            self._by_cause.setdefault(each, {})[key] = None

    def discard(self, key: Key) -> None:
        """Forget a pod that no longer waits."""
        for each in self._causes.pop(key, ()):
            self._remove(key, each)

    def _remove(self, key: Key, cause: Hashable) -> None:
        pods = self._by_cause[cause]
        del pods[key]
        if not pods:
            del self._by_cause[cause]

    def waiting_for(self, cause: Hashable) -> list[Key]:
        """Return the pods that wait for a cause."""
        return list(self._by_cause.get(cause, ()))


# The claims whose volumes a pod mounts.

_BIND_COMPLETED = "pv.kubernetes.io/bind-completed"


def claims_of(pod: JSON) -> list[Key]:
    """Return the claims of a pod, those of its ephemeral volumes included."""
    namespace = pod["metadata"]["namespace"]
    names = (claim_name(pod, each) for each in pod["spec"].get("volumes", ()))
    return [(namespace, name) for name in names if name]


def claim_name(pod: JSON, volume: JSON) -> str:
    """Return the claim of a pod's volume, empty for a volume of another kind."""
    if "ephemeral" in volume:
        return f"{pod['metadata']['name']}-{volume['name']}"
    return str((volume.get("persistentVolumeClaim") or {}).get("claimName", ""))


def is_made_for(claim: JSON, pod: JSON) -> bool:
    """Tell whether the claim of an ephemeral volume was made for this pod."""
    owners = claim["metadata"].get("ownerReferences") or ()
    uid = pod["metadata"]["uid"]
    return any(each.get("controller") and each["uid"] == uid for each in owners)


def is_bound(claim: JSON) -> bool:
    """Tell whether a claim and its volume are bound to each other."""
    annotations = claim["metadata"].get("annotations") or {}
    return bool(claim["spec"].get("volumeName")) and _BIND_COMPLETED in annotations


# Claims, volumes and classes of a cluster, for the parts of a driver.


class StorageObjects:
    """Reads and writes objects of the API server in the same process.

    The API server refuses a write of an object that has changed since the read, as on a
    real cluster; here that never happens, because read and write happen in one step.
    """

    def __init__(self, objects: Objects) -> None:
        self.objects = objects

    def now(self) -> str:
        """Return the present time in the form of the API."""
        return format_time(self.objects.clock.now())

    def claim(self, key: Key) -> JSON | None:
        """Return a claim, `None` if there is none."""
        return self._found(CLAIM, key)

    def volume(self, name: str) -> JSON | None:
        """Return a volume, `None` if there is none."""
        return self._found(VOLUME, ("", name))

    def class_of(self, claim: JSON) -> JSON | None:
        """Return the class of a claim, `None` if there is none."""
        return self._found(
            STORAGE_CLASSES, ("", claim["spec"].get("storageClassName") or "")
        )

    def _found(self, kind: Kind, key: Key) -> JSON | None:
        stored = self.objects.storage.collection(kind.resource).get(key)
        return None if stored is None else stored.obj

    def update(
        self, kind: Kind, old: JSON, subresource: str = "", **parts: Any
    ) -> JSON:
        """Replace parts of an object, such as its spec or its status; return it."""
        new = {**old, **parts}
        return self.objects.update(kind, *key_of(old), new, subresource).obj

    def annotate(self, kind: Kind, old: JSON, **parts: Any) -> JSON:
        """Add `annotations` to an object, and replace its other `parts`."""
        metadata = old["metadata"]
        more = {**metadata.get("annotations", {}), **parts.pop("annotations")}
        return self.update(
            kind, old, metadata={**metadata, "annotations": more}, **parts
        )

    def set_finalizer(
        self, kind: Kind, old: JSON, finalizer: str, *, present: bool
    ) -> JSON:
        """Add or remove a finalizer, unless that is done already."""
        metadata = old["metadata"]
        before = metadata.get("finalizers") or []
        after = [each for each in before if each != finalizer]
        after += [finalizer] if present else []
        if sorted(before) == sorted(after):
            return old
        return self.update(kind, old, metadata={**metadata, "finalizers": after})


# Tests whether a volume satisfies a claim.


def is_free(volume: JSON) -> bool:
    """Tell whether a volume is free; it may be reserved for a claim."""
    return (
        volume.get("status", {}).get("phase") == "Available"
        and "deletionTimestamp" not in volume["metadata"]
        and not volume["spec"].get("claimRef", {}).get("uid")
    )


def satisfies(volume: JSON, claim: JSON) -> bool:
    """Tell whether a free volume may be bound to a claim."""
    spec, request = volume["spec"], claim["spec"]
    return (
        _is_reserved_for(spec.get("claimRef"), claim)
        and _is_selected(volume, request.get("selector"))
        and _same(spec, request, "volumeMode", "Filesystem")
        and _same(spec, request, "volumeAttributesClassName", "")
        and set(request.get("accessModes", ())) <= set(spec.get("accessModes", ()))
        and capacity_of(volume) >= parse_quantity(request_of(claim))
    )


def _is_reserved_for(reference: JSON | None, claim: JSON) -> bool:
    metadata = claim["metadata"]
    return not reference or (reference.get("namespace"), reference.get("name")) == (
        metadata["namespace"],
        metadata["name"],
    )


def _is_selected(volume: JSON, selector: JSON | None) -> bool:
    if selector is None:
        return True
    compiled = compile_selector(msgspec.convert(selector, LabelSelector))
    return compiled.matches(volume["metadata"].get("labels", {}))


def _same(spec: JSON, request: JSON, name: str, absent: str) -> bool:
    return (spec.get(name) or absent) == (request.get(name) or absent)


def capacity_of(volume: JSON) -> Quantity:
    """Return the size of a volume, in bytes."""
    return parse_quantity(volume["spec"].get("capacity", {}).get("storage", "0"))


def request_of(claim: JSON) -> str:
    """Return the size that a claim asks for, as it is written there."""
    requests = claim["spec"].get("resources", {}).get("requests", {})
    return str(requests.get("storage", "0"))


def reference_to(claim: JSON) -> JSON:
    """Return the claimRef of a volume that is bound to a claim."""
    metadata = claim["metadata"]
    return {
        "kind": "PersistentVolumeClaim",
        "apiVersion": "v1",
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "resourceVersion": metadata["resourceVersion"],
    }


# The CSI driver of the development cluster, and the classes of its volumes.

DRIVER: Final = "devcluster"
"""The name of the CSI driver, and of the provisioner of its storage classes."""

PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
STORAGE_PROVISIONER: Final = "volume.kubernetes.io/storage-provisioner"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
ON_DEMAND: Final = "WaitForFirstConsumer"

_MIGRATED: Final = "storage.alpha.kubernetes.io/migrated-plugins"
_PLUGINS: Final = (
    "aws-ebs",
    "azure-disk",
    "azure-file",
    "cinder",
    "gce-pd",
    "portworx-volume",
    "vsphere-volume",
)
"""The plugins whose volumes CSI drivers have taken over."""


def storage_classes() -> Iterator[JSON]:
    """Return the storage classes of a new cluster; the first one is the default."""
    for name, mode, default in (
        ("standard", ON_DEMAND, "true"),
        ("immediate", "Immediate", "false"),
    ):
        yield {
            "metadata": {"name": name, "annotations": {IS_DEFAULT: default}},
            "provisioner": DRIVER,
            "reclaimPolicy": "Delete",
            "volumeBindingMode": mode,
            "allowVolumeExpansion": True,
        }


def csi_driver() -> JSON:
    """Return the CSIDriver: its volumes need an attachment."""
    return {"metadata": {"name": DRIVER}, "spec": {"attachRequired": True}}


def csi_node(node: JSON) -> JSON:
    """Return the CSINode that the kubelet of a node registers."""
    metadata = node["metadata"]
    owner = {
        "apiVersion": "v1",
        "kind": "Node",
        "name": metadata["name"],
        "uid": metadata["uid"],
    }
    plugins = ",".join(f"kubernetes.io/{each}" for each in _PLUGINS)
    driver = {"name": DRIVER, "nodeID": metadata["name"], "topologyKeys": None}
    return {
        "metadata": {
            "name": metadata["name"],
            "annotations": {_MIGRATED: plugins},
            "ownerReferences": [owner],
        },
        "spec": {"drivers": [driver]},
    }


def is_ours(volume: JSON) -> bool:
    """Tell whether a volume is one of the driver's."""
    return bool(volume["spec"].get("csi", {}).get("driver") == DRIVER)


def annotation(obj: JSON, name: str) -> str:
    """Return an annotation of an object, empty if it has none."""
    return str((obj["metadata"].get("annotations") or {}).get(name, ""))


def node_annotations(name: str) -> dict[str, str]:
    """Return the annotations that a kubelet writes on its node."""
    return {
        "csi.volume.kubernetes.io/nodeid": f'{{"{DRIVER}":"{name}"}}',
        "volumes.kubernetes.io/controller-managed-attach-detach": "true",
    }


# The external attacher: attaches volumes to nodes when attachments ask for it.

FINALIZER: Final = f"external-attacher/{DRIVER}"

_NODE_ID: Final = "csi.alpha.kubernetes.io/node-id"


class Attacher:
    """Attaches and detaches the volumes of the driver."""

    def __init__(self, storage: StorageObjects) -> None:
        self._storage = storage
        self._attachments = storage.objects.storage.collection(ATTACHMENTS.resource)
        self._of_volume: dict[str, set[str]] = {}
        """The names of the attachments of each volume."""

    def attachment_changed(self, change: Change) -> None:
        """Attach or detach the volume of an attachment."""
        given = change.after.obj
        if given["spec"]["attacher"] != DRIVER:
            return
        name = given["spec"]["source"].get("persistentVolumeName", "")
        users = self._of_volume.setdefault(name, set())
        stored = self._attachments.get(change.key)
        if stored is None:
            users.discard(change.key[1])
            self._release(name)
            return
        users.add(change.key[1])
        if "deletionTimestamp" in stored.obj["metadata"]:
            self._detach(stored.obj)
        elif not stored.obj["status"].get("attached"):
            self._attach(stored.obj, name)

    def volume_changed(self, change: Change) -> None:
        """Add the finalizer to a new volume; remove it from a deleted one."""
        name = change.key[1]
        if "deletionTimestamp" in change.after.obj["metadata"]:
            self._release(name)
        elif change.type == "ADDED":
            for each in list(self._of_volume.get(name, ())):
                stored = self._attachments.get(("", each))
                if stored is not None and not stored.obj["status"].get("attached"):
                    self._attach(stored.obj, name)

    def _attach(self, attachment: JSON, name: str) -> None:
        volume = self._storage.volume(name)
        if volume is None or not is_ours(volume):
            self._fail(attachment, name)
            return
        annotations = {_NODE_ID: attachment["spec"]["nodeName"]}
        attachment = self._storage.annotate(
            ATTACHMENTS, attachment, annotations=annotations
        )
        attachment = self._storage.set_finalizer(
            ATTACHMENTS, attachment, FINALIZER, present=True
        )
        if "deletionTimestamp" not in volume["metadata"]:
            self._storage.set_finalizer(VOLUME, volume, FINALIZER, present=True)
        self._storage.update(
            ATTACHMENTS, attachment, "status", status={"attached": True}
        )

    def _fail(self, attachment: JSON, name: str) -> None:
        message = f'persistentvolume "{name}" not found'
        status = attachment["status"]
        if status.get("attachError", {}).get("message") == message:
            return
        error = {"message": message, "time": self._storage.now()}
        self._storage.update(
            ATTACHMENTS, attachment, "status", status={**status, "attachError": error}
        )

    def _detach(self, attachment: JSON) -> None:
        if FINALIZER not in attachment["metadata"].get("finalizers", ()):
            return
        attachment = self._storage.update(
            ATTACHMENTS, attachment, "status", status={"attached": False}
        )
        self._storage.set_finalizer(ATTACHMENTS, attachment, FINALIZER, present=False)

    def _release(self, name: str) -> None:
        if self._of_volume.get(name):
            return
        self._of_volume.pop(name, None)
        volume = self._storage.volume(name)
        if volume is not None and "deletionTimestamp" in volume["metadata"]:
            self._storage.set_finalizer(VOLUME, volume, FINALIZER, present=False)
