"""Binds claims to volumes, and makes the volumes (the volume binder's stand-in).

It does what users of a cluster with one storage provider see: a claim of a class with
the mode Immediate is bound at once, a claim of a class with WaitForFirstConsumer when
a pod that uses it is scheduled. Volumes that exist go before new ones. A volume whose
claim is gone is Released, and is deleted if its policy is Delete.
"""

from collections.abc import Iterator
from typing import Any, Final

from controller_manager.api.times import format_time
from controller_manager.devcluster.kinds.core.persistentvolume import KIND as VOLUME
from controller_manager.devcluster.kinds.core.persistentvolumeclaim import (
    KIND as CLAIM,
)
from controller_manager.devcluster.kinds.storage.default_class import IS_DEFAULT
from controller_manager.devcluster.kinds.storage.storageclass import (
    KIND as CLASS,
)
from controller_manager.devcluster.nodes.reports import Reporter
from controller_manager.devcluster.nodes.volume_fit import (
    capacity_of,
    is_bound,
    is_free,
    reference_to,
    request_of,
    satisfies,
)
from controller_manager.devcluster.server.deletion import Deletion
from controller_manager.devcluster.server.objects import Objects
from controller_manager.devcluster.server.storage import Change, Key

JSON = dict[str, Any]

PROVISIONER: Final = "devcluster"
"""The provisioner of the storage classes that make their own volumes."""

_COMPONENT: Final = "persistentvolume-controller"
_ON_DEMAND: Final = "WaitForFirstConsumer"
_UNBOUND: Final = "pod has unbound immediate PersistentVolumeClaims"
_BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
_BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
_PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
_SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
_STORAGE_PROVISIONER: Final = "volume.kubernetes.io/storage-provisioner"


def storage_classes() -> Iterator[JSON]:
    """Return the storage classes of a new cluster; the first one is the default."""
    for name, mode, default in (
        ("standard", _ON_DEMAND, "true"),
        ("immediate", "Immediate", "false"),
    ):
        yield {
            "metadata": {"name": name, "annotations": {IS_DEFAULT: default}},
            "provisioner": PROVISIONER,
            "reclaimPolicy": "Delete",
            "volumeBindingMode": mode,
        }


def claims_of(pod: JSON) -> list[Key]:
    """Return the claims whose volumes a pod mounts."""
    namespace = pod["metadata"]["namespace"]
    sources = (
        each.get("persistentVolumeClaim") for each in pod["spec"].get("volumes", ())
    )
    return [(namespace, each["claimName"]) for each in sources if each]


class ClaimBinder:
    """Binds claims to volumes.

    It remembers the claims that wait and the volumes that are free, so that no change
    of an object costs a search through all claims or volumes.
    """

    def __init__(self, objects: Objects, report: Reporter) -> None:
        """Take the objects of the API server in the same process."""
        self._objects = objects
        self._claims = objects.storage.collection(CLAIM.resource)
        self._volumes = objects.storage.collection(VOLUME.resource)
        self._classes = objects.storage.collection(CLASS.resource)
        self._report = report
        self._free: dict[str, None] = {}
        self._waiting: dict[Key, tuple[str, str]] = {}
        """The uid of each claim that waits, and the reason that was reported."""

    # Changes

    def claim_changed(self, change: Change) -> None:
        """React to a claim that is new, has changed, or is gone."""
        if change.type == "DELETED":
            self._waiting.pop(change.key, None)
            self._release(change.after.obj)
        else:
            self._sync(change.key)

    def volume_changed(self, change: Change) -> None:
        """React to a volume that is new, has changed, or is gone."""
        name, stored = change.key[1], self._volumes.get(change.key)
        if stored is None or not is_free(stored.obj):
            self._free.pop(name, None)
            return
        if stored.obj.get("status", {}).get("phase") != "Available":
            self._set_phase(name, "Available")
        self._free[name] = None
        for key in list(self._waiting):
            self._sync(key)

    def class_changed(self, change: Change) -> None:
        """React to a storage class: a claim may wait for it."""
        if change.type != "DELETED":
            for key in list(self._waiting):
                self._sync(key)

    # Pods

    def blocker(self, pod: JSON) -> str:
        """Return why the claims of a pod keep it from being scheduled, if they do."""
        for key in claims_of(pod):
            stored = self._claims.get(key)
            if stored is None:
                return f'persistentvolumeclaim "{key[1]}" not found'
            if "deletionTimestamp" in stored.obj["metadata"]:
                return f'persistentvolumeclaim "{key[1]}" is being deleted'
            if not is_bound(stored.obj) and not self._waits_for_consumer(stored.obj):
                return _UNBOUND
        return ""

    def provide(self, pod: JSON, node: str) -> None:
        """Bind the claims of a pod that have waited for it to be scheduled."""
        for key in claims_of(pod):
            stored = self._claims.get(key)
            if stored is None or is_bound(stored.obj):
                continue
            claim = stored.obj
            if (volume := self._matching(claim)) is None:
                claim = self._annotated(claim, {_SELECTED_NODE: node})
                volume = self._provision(claim)
            self._bind(claim, volume)

    # One claim

    def _sync(self, key: Key) -> None:
        """Bind a claim that can be bound now; report why another waits."""
        stored = self._claims.get(key)
        if stored is None or is_bound(stored.obj):
            self._waiting.pop(key, None)
            return
        claim = stored.obj
        if "deletionTimestamp" in claim["metadata"]:
            return
        if claim["spec"].get("storageClassName") is None:
            claim = self._with_default_class(claim)
        volume = self._matching(claim)
        if volume is None and self._can_be_provisioned(claim):
            volume = self._provision(claim)
        if volume is not None and not self._waits_for_consumer(claim):
            self._waiting.pop(key, None)
            self._bind(claim, volume)
        else:
            self._explain(key, claim)

    def _can_be_provisioned(self, claim: JSON) -> bool:
        found = self._class(claim)
        return (
            found is not None
            and found["provisioner"] == PROVISIONER
            and not claim["spec"].get("volumeName")
            and not claim["spec"].get("selector")
            and not self._waits_for_consumer(claim)
        )

    def _waits_for_consumer(self, claim: JSON) -> bool:
        found = self._class(claim)
        if found is None or claim["spec"].get("volumeName"):
            return False
        provided = found["provisioner"] == PROVISIONER and not claim["spec"].get(
            "selector"
        )
        return found.get("volumeBindingMode") == _ON_DEMAND and (
            provided or self._matching(claim) is not None
        )

    def _class(self, claim: JSON) -> JSON | None:
        stored = self._classes.get(("", claim["spec"].get("storageClassName") or ""))
        return None if stored is None else stored.obj

    def _with_default_class(self, claim: JSON) -> JSON:
        """Return a claim with the default class, if there is one."""
        for stored in self._classes:
            annotations = stored.obj["metadata"].get("annotations", {})
            if annotations.get(IS_DEFAULT) == "true":
                name = stored.obj["metadata"]["name"]
                spec = {**claim["spec"], "storageClassName": name}
                return self._update(claim, {**claim, "spec": spec})
        return claim

    def _explain(self, key: Key, claim: JSON) -> None:
        """Report once why a claim waits."""
        kind, reason, message = self._why(claim)
        uid = claim["metadata"]["uid"]
        if self._waiting.get(key) != (uid, reason):
            self._waiting[key] = (uid, reason)
            self._report.other(_COMPONENT, claim, kind, reason, message)

    def _why(self, claim: JSON) -> tuple[str, str, str]:
        name = claim["spec"].get("storageClassName") or ""
        if not name:
            message = (
                "no persistent volumes available for this claim and no storage class "
                "is set"
            )
            return "Normal", "FailedBinding", message
        found = self._class(claim)
        if found is None:
            message = f'storageclass.storage.k8s.io "{name}" not found'
            return "Warning", "ProvisioningFailed", message
        if self._waits_for_consumer(claim):
            message = "waiting for first consumer to be created before binding"
            return "Normal", _ON_DEMAND, message
        message = (
            "Waiting for a volume to be created either by the external provisioner "
            f"'{found['provisioner']}' or manually by the system administrator. If "
            "volume creation is delayed, please verify that the provisioner is running "
            "and correctly registered."
        )
        return "Normal", "ExternalProvisioning", message

    # Volumes

    def _matching(self, claim: JSON) -> JSON | None:
        """Return the smallest free volume that satisfies a claim."""
        wanted = claim["spec"].get("volumeName")
        free = (self._volumes.get(("", name)) for name in self._free)
        fitting = [
            each.obj
            for each in free
            if each is not None and satisfies(each.obj, claim, wanted)
        ]
        return min(fitting, key=capacity_of, default=None)

    def _provision(self, claim: JSON) -> JSON:
        """Return a new volume for a claim, made as its class says."""
        found, spec = self._class(claim), claim["spec"]
        assert found is not None  # noqa: S101 - the class provides the volume
        name = f"pvc-{claim['metadata']['uid']}"
        volume = {
            "metadata": {
                "name": name,
                "annotations": {_PROVISIONED_BY: found["provisioner"]},
            },
            "spec": {
                "capacity": {"storage": request_of(claim)},
                "accessModes": spec.get("accessModes", []),
                "persistentVolumeReclaimPolicy": found.get("reclaimPolicy", "Delete"),
                "storageClassName": found["metadata"]["name"],
                "volumeMode": spec.get("volumeMode", "Filesystem"),
                "csi": {"driver": found["provisioner"], "volumeHandle": name},
            },
        }
        return self._objects.create(VOLUME, "", volume).obj

    def _bind(self, claim: JSON, volume: JSON) -> None:
        metadata, spec = volume["metadata"], volume["spec"]
        name = metadata["name"]
        self._free.pop(name, None)
        self._objects.update(
            VOLUME,
            "",
            name,
            {**volume, "spec": {**spec, "claimRef": reference_to(claim)}},
        )
        self._set_phase(name, "Bound")
        annotations = {_BIND_COMPLETED: "yes", _BOUND_BY_CONTROLLER: "yes"}
        if _PROVISIONED_BY in metadata.get("annotations", {}):
            annotations[_STORAGE_PROVISIONER] = spec["csi"]["driver"]
        bound = {**claim, "spec": {**claim["spec"], "volumeName": name}}
        claim = self._annotated(bound, annotations)
        status = {
            **claim.get("status", {}),
            "phase": "Bound",
            "accessModes": spec.get("accessModes", []),
            "capacity": spec.get("capacity", {}),
        }
        self._update(claim, {**claim, "status": status}, "status")

    def _release(self, claim: JSON) -> None:
        """Release the volume of a claim that is gone, and delete it if it says so."""
        name = claim["spec"].get("volumeName", "")
        stored = self._volumes.get(("", name))
        if stored is None:
            return
        spec = stored.obj["spec"]
        if spec.get("claimRef", {}).get("uid") != claim["metadata"]["uid"]:
            return
        self._set_phase(name, "Released")
        if spec.get("persistentVolumeReclaimPolicy") == "Delete":
            self._objects.delete(VOLUME, "", name, Deletion())
            self._unprotect(name)

    def _unprotect(self, name: str) -> None:
        """Let a deleted volume go, which no claim uses any more."""
        if self._objects.has(VOLUME, "", name):
            volume = self._objects.find(VOLUME, "", name).obj
            metadata = {**volume["metadata"], "finalizers": []}
            self._objects.update(VOLUME, "", name, {**volume, "metadata": metadata})

    def _set_phase(self, name: str, phase: str) -> None:
        volume = self._objects.find(VOLUME, "", name).obj
        status = {
            **volume.get("status", {}),
            "phase": phase,
            "lastPhaseTransitionTime": format_time(self._objects.clock.now()),
        }
        self._objects.update(VOLUME, "", name, {**volume, "status": status}, "status")

    def _annotated(self, claim: JSON, more: dict[str, str]) -> JSON:
        metadata = claim["metadata"]
        annotations = {**metadata.get("annotations", {}), **more}
        return self._update(
            claim, {**claim, "metadata": {**metadata, "annotations": annotations}}
        )

    def _update(self, claim: JSON, new: JSON, subresource: str = "") -> JSON:
        metadata = claim["metadata"]
        namespace, name = metadata["namespace"], metadata["name"]
        return self._objects.update(CLAIM, namespace, name, new, subresource).obj
