"""The part of the scheduler that looks at the claims of pods: volumes, devices."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.objects import Objects
from controller_manager.devcluster.csi import driver
from controller_manager.devcluster.registry.core.pods import KIND as POD
from controller_manager.devcluster.registry.core.volumes import CLAIMS as CLAIM
from controller_manager.devcluster.registry.core.volumes import VOLUMES as VOLUME
from controller_manager.devcluster.registry.resource import CLAIMS, DEVICE_CLASSES
from controller_manager.devcluster.storage import Change, Key, key_of

from .node_infos import NodeFacts, matches_terms

# The part of the scheduler that looks at the claims of pods.

_UNBOUND: Final = "pod has unbound immediate PersistentVolumeClaims"
_OTHER_NODES: Final = "node(s) didn't match PersistentVolume's node affinity"
_NO_VOLUMES: Final = "node(s) didn't find available persistent volumes to bind"
_GONE: Final = (
    "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
)
ONE_POD: Final = (
    "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod "
    "access mode"
)
"""The reason of a pod whose claim only one pod may use (plugin VolumeRestrictions)."""

_BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
_NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"


class Binding(Struct, frozen=True):
    """A claim, and the volume reserved for it, empty if the driver will make one."""

    claim: Key
    volume: str


class VolumeBinding:
    """Finds the claims that keep a pod from a node, and prepares claims for binding.

    The controller binds them. This class remembers the free volumes by class, so that
    no pod costs a search through all volumes.
    """

    def __init__(self, storage: driver.StorageObjects) -> None:
        self._storage = storage
        self._pods = storage.objects.storage.collection(POD.resource)
        self._free: dict[str, dict[str, None]] = {}

    def volume_changed(self, change: Change) -> None:
        """React to a volume that is new, has changed, or is gone."""
        name = change.key[1]
        names = self._free.setdefault(
            str(change.after.obj["spec"].get("storageClassName", "")), {}
        )
        volume = self._storage.volume(name)
        if volume is not None and driver.is_free(volume):
            names[name] = None
        else:
            names.pop(name, None)

    def blocker(self, pod: JSON) -> str:
        """Return why the claims of a pod keep it from every node, if they do."""
        for volume in pod["spec"].get("volumes", ()):
            name = driver.claim_name(pod, volume)
            if not name:
                continue
            is_ephemeral = "ephemeral" in volume
            if why := self._blocked_by(pod, name, is_ephemeral=is_ephemeral):
                return why
        if any(not self._waits_for_consumer(each) for each in self._unbound(pod)):
            return _UNBOUND
        return ""

    def conflict(self, pod: JSON) -> str:
        """Return why another pod keeps a pod from every node, if one does."""
        for key in driver.claims_of(pod):
            claim = self._storage.claim(key)
            modes = claim["spec"].get("accessModes", ()) if claim is not None else ()
            if "ReadWriteOncePod" in modes and self._is_used(key):
                return ONE_POD
        return ""

    def why_not(self, pod: JSON, node: NodeFacts) -> str:
        """Return why the volumes of a pod keep it from a node, if they do."""
        if conflict := self.conflict(pod):
            return conflict
        for key in driver.claims_of(pod):
            claim = self._storage.claim(key)
            if claim is None or not driver.is_bound(claim):
                continue
            volume = self._storage.volume(claim["spec"]["volumeName"])
            if volume is None:
                return _GONE
            if not _fits_node(volume, node):
                return _OTHER_NODES
        return _NO_VOLUMES if self._choose(pod, node) is None else ""

    def prepare(self, pod: JSON, node: NodeFacts) -> tuple[Binding, ...]:
        """Prepare the claims of a pod for binding on a node; return these claims."""
        bindings = []
        for claim, volume in self._choose(pod, node) or ():
            name = ""
            if volume is not None:
                name = volume["metadata"]["name"]
                spec = {**volume["spec"], "claimRef": driver.reference_to(claim)}
                bound = {_BOUND_BY_CONTROLLER: "yes"}
                self._storage.annotate(VOLUME, volume, annotations=bound, spec=spec)
            else:
                annotations = {driver.SELECTED_NODE: node.name}
                self._storage.annotate(CLAIM, claim, annotations=annotations)
            bindings.append(Binding(key_of(claim), name))
        return tuple(bindings)

    def are_bound(self, bindings: Iterable[Binding]) -> bool:
        """Tell whether the claims of a pod that was prepared are bound."""
        claims = (self._storage.claim(each.claim) for each in bindings)
        return all(claim is not None and driver.is_bound(claim) for claim in claims)

    def failure(self, bindings: Iterable[Binding], node: str) -> str:
        """Return why claims will never be bound for a node, empty if they may be."""
        for binding in bindings:
            claim, name = self._storage.claim(binding.claim), binding.claim[1]
            if claim is None:
                return f'persistentvolumeclaim "{name}" not found'
            if driver.is_bound(claim):
                continue
            if binding.volume:
                volume = self._storage.volume(binding.volume)
                reference = volume["spec"].get("claimRef") if volume else None
                if (reference or {}).get("uid") != claim["metadata"]["uid"]:
                    return f'claimRef got reset for PV "{binding.volume}"'
            elif driver.annotation(claim, driver.SELECTED_NODE) != node:
                return f'provisioning failed for PVC "{name}"'
        return ""

    def _blocked_by(self, pod: JSON, name: str, *, is_ephemeral: bool) -> str:
        namespace = pod["metadata"]["namespace"]
        claim = self._storage.claim((namespace, name))
        if claim is None and is_ephemeral:
            return (
                "waiting for ephemeral volume controller to create the "
                f'persistentvolumeclaim "{name}"'
            )
        if claim is None:
            return f'persistentvolumeclaim "{name}" not found'
        if claim["status"].get("phase") == "Lost":
            volume = claim["spec"].get("volumeName", "")
            return (
                f'persistentvolumeclaim "{name}" bound to non-existent '
                f'persistentvolume "{volume}"'
            )
        if "deletionTimestamp" in claim["metadata"]:
            return f'persistentvolumeclaim "{name}" is being deleted'
        if is_ephemeral and not driver.is_made_for(claim, pod):
            full_name = f"{namespace}/{pod['metadata']['name']}"
            return (
                f"PVC {namespace}/{name} was not created for pod {full_name} (pod is "
                "not owner)"
            )
        return ""

    def _is_used(self, key: Key) -> bool:
        return any(
            key in driver.claims_of(each.obj)
            for each in self._pods
            if each.obj["spec"].get("nodeName")
            and each.obj["metadata"]["namespace"] == key[0]
            and each.obj.get("status", {}).get("phase") not in ("Failed", "Succeeded")
        )

    def _unbound(self, pod: JSON) -> Iterator[JSON]:
        for key in driver.claims_of(pod):
            claim = self._storage.claim(key)
            if claim is not None and not driver.is_bound(claim):
                yield claim

    def _waits_for_consumer(self, claim: JSON) -> bool:
        """Tell whether a claim is bound only after its pod has a node."""
        if claim["spec"].get("volumeName"):
            return False
        found = self._storage.class_of(claim)
        return found is not None and found["volumeBindingMode"] == driver.ON_DEMAND

    def _choose(
        self, pod: JSON, node: NodeFacts
    ) -> list[tuple[JSON, JSON | None]] | None:
        """Return a volume for each unbound claim, or `None` for a new volume.

        The result is `None` if a claim can get no volume on the node.
        """
        chosen: list[tuple[JSON, JSON | None]] = []
        taken: set[str] = set()
        for claim in self._unbound(pod):
            volume = None
            if selected := driver.annotation(claim, driver.SELECTED_NODE):
                if selected != node.name:
                    return None  # a volume is being made for another node
            else:
                volume = self._matching(claim, node, taken)
            if volume is not None:
                taken.add(volume["metadata"]["name"])
            else:
                found = self._storage.class_of(claim)
                if found is None or found["provisioner"] == _NO_PROVISIONER:
                    return None
            chosen.append((claim, volume))
        return chosen

    def _matching(self, claim: JSON, node: NodeFacts, taken: set[str]) -> JSON | None:
        fitting = [
            each
            for each in self._volumes_of(claim)
            if each["metadata"]["name"] not in taken
            and driver.satisfies(each, claim)
            and _fits_node(each, node)
        ]
        return min(
            fitting,
            key=lambda each: ("claimRef" not in each["spec"], driver.capacity_of(each)),
            default=None,
        )

    def _volumes_of(self, claim: JSON) -> Iterator[JSON]:
        for name in self._free.get(claim["spec"].get("storageClassName") or "", ()):
            volume = self._storage.volume(name)
            if volume is not None:
                yield volume


def _fits_node(volume: JSON, node: NodeFacts) -> bool:
    required = (volume["spec"].get("nodeAffinity") or {}).get("required")
    return not required or matches_terms(required.get("nodeSelectorTerms", []), node)


# The part of the scheduler that looks at the claims of pods to devices.

_MAX_USERS: Final = 256
_IN_USE: Final = "resourceclaim in use"
_ELSEWHERE: Final = "resourceclaim not available on the node"
NOT_ALLOCATED: Final = "cannot allocate all claims"
"""The reason of a node for a pod with a claim that is not allocated."""


class DeviceClaims:
    """Finds the claims that keep a pod from a node, and reserves claims."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._claims = objects.storage.collection(CLAIMS.resource)

    def waits(self, pod: JSON) -> bool:
        """Tell whether a claim of a pod does not exist."""
        return any(
            claim is None or "deletionTimestamp" in claim["metadata"]
            for claim in self._claims_of(pod)
        )

    def blocker(self, pod: JSON) -> str:
        """Return why the claims of a pod keep it from every node, if they do."""
        for claim in filter(None, self._claims_of(pod)):
            users = claim["status"].get("reservedFor") or ()
            if len(users) >= _MAX_USERS and not _is_reserved(claim, pod):
                return _IN_USE
            if claim["status"].get("allocation"):
                continue
            for request, name in _classes_of(claim):
                if not self._objects.has(DEVICE_CLASSES, "", name):
                    return f"request {request}: device class {name} does not exist"
        return ""

    def why_not(self, pod: JSON, node: NodeFacts) -> str:
        """Return why the claims of a pod keep it from a node, if they do."""
        for claim in filter(None, self._claims_of(pod)):
            allocation = claim["status"].get("allocation")
            if not allocation:
                return NOT_ALLOCATED
            selector = allocation.get("nodeSelector") or {}
            terms = selector.get("nodeSelectorTerms")
            if terms and not matches_terms(terms, node):
                return _ELSEWHERE
        return ""

    def reserve(self, pod: JSON) -> None:
        """Reserve the claims of a pod that gets a node."""
        metadata = pod["metadata"]
        user = {"resource": "pods", "name": metadata["name"], "uid": metadata["uid"]}
        for claim in filter(None, self._claims_of(pod)):
            if _is_reserved(claim, pod):
                continue
            users = [*(claim["status"].get("reservedFor") or ()), user]
            new = {**claim, "status": {**claim["status"], "reservedFor": users}}
            name = claim["metadata"]["name"]
            self._objects.update(CLAIMS, metadata["namespace"], name, new, "status")

    def keys_of(self, pod: JSON) -> Sequence[Key]:
        """Return keys by which the claims of a pod differ from those to volumes."""
        return [claim_key((namespace, name)) for namespace, name in _keys(pod) if name]

    def _claims_of(self, pod: JSON) -> Iterator[JSON | None]:
        for key in _keys(pod):
            stored = self._claims.get(key)
            yield stored.obj if stored is not None else None


def claim_key(key: Key) -> Key:
    """Return a key of a claim to devices that no claim to a volume has."""
    return key[0], f"{CLAIMS.plural}/{key[1]}"


def _keys(pod: JSON) -> Iterator[Key]:
    """Yield the claims of a pod; a claim that does not exist yet has no name."""
    statuses = pod.get("status", {}).get("resourceClaimStatuses") or ()
    made = {each["name"]: each.get("resourceClaimName") for each in statuses}
    for each in pod["spec"].get("resourceClaims") or ():
        name = each.get("resourceClaimName")
        if name is None and each["name"] in made and made[each["name"]] is None:
            continue  # the pod needs none
        yield pod["metadata"]["namespace"], name or made.get(each["name"]) or ""


def _classes_of(claim: JSON) -> Iterator[tuple[str, str]]:
    for request in claim["spec"]["devices"].get("requests") or ():
        name = request["name"]
        if "exactly" in request:
            yield name, request["exactly"].get("deviceClassName", "")
        for each in request.get("firstAvailable") or ():
            yield f"{name}/{each['name']}", each.get("deviceClassName", "")


def _is_reserved(claim: JSON, pod: JSON) -> bool:
    users = claim["status"].get("reservedFor") or ()
    return any(each.get("uid") == pod["metadata"]["uid"] for each in users)
