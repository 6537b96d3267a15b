"""The part of the scheduler that allocates devices to the claims of pods.

Upstream: pkg/scheduler/framework/plugins/dynamicresources, with the allocator of
k8s.io/dynamic-resource-allocation. Here no expression (CEL) is evaluated, and no
attributes are compared: a request or a class with selectors, and a claim with
constraints, gets no device.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from controller_manager.api.core.scheduling import NO_EXECUTE, NO_SCHEDULE, Taint
from controller_manager.api.json_objects import JSON
from controller_manager.control.scheduling import untolerated
from controller_manager.devcluster.kinds.resource.deviceclass import KIND as CLASS
from controller_manager.devcluster.kinds.resource.resourceclaim import KIND as CLAIM
from controller_manager.devcluster.kinds.resource.resourceslice import KIND as SLICE
from controller_manager.devcluster.scheduler.predicates import NodeFacts, matches_terms
from controller_manager.devcluster.server.registry.objects import Objects
from controller_manager.devcluster.server.storage.storage import Key

from .device_requests import Wanted, alternatives_of

_PROTECTION: Final = "resource.kubernetes.io/delete-protection"
_MAX_USERS: Final = 256
_IN_USE: Final = "resourceclaim in use"
_ELSEWHERE: Final = "resourceclaim not available on the node"
TOO_FEW: Final = "cannot allocate all claims"
"""The reason of a node that has too few devices."""


class _Device(Struct, frozen=True):
    """A device of a pool; `is_everywhere` is true if every node can use it."""

    driver: str
    pool: str
    name: str
    taints: tuple[Taint, ...]
    is_everywhere: bool

    @property
    def key(self) -> tuple[str, str, str]:
        """The identity of a device: driver, pool and name."""
        return self.driver, self.pool, self.name


class DeviceAllocation:
    """Finds the claims that keep a pod from a node; allocates and reserves claims."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._claims = objects.storage.collection(CLAIM.resource)
        self._slices = objects.storage.collection(SLICE.resource)

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
            for wanted in alternatives_of(claim):
                if not self._objects.has(CLASS, "", wanted[0].device_class):
                    request, name = wanted[0].name, wanted[0].device_class
                    return f"request {request}: device class {name} does not exist"
        return ""

    def why_not(self, pod: JSON, node: NodeFacts) -> str:
        """Return why the claims of a pod keep it from a node, if they do."""
        taken: set[tuple[str, str, str]] = set()
        for claim in filter(None, self._claims_of(pod)):
            allocation = claim["status"].get("allocation")
            if allocation and not _is_on(allocation.get("nodeSelector"), node):
                return _ELSEWHERE
            if not allocation and self._allocate(claim, node, taken) is None:
                return TOO_FEW
        return ""

    def reserve(self, pod: JSON, node: NodeFacts) -> None:
        """Allocate the devices of a pod for its node, and reserve its claims."""
        taken: set[tuple[str, str, str]] = set()
        for claim in filter(None, self._claims_of(pod)):
            status = claim["status"]
            if not status.get("allocation"):
                allocation = self._allocate(claim, node, taken)
                status = {**status, "allocation": allocation}
            if not _is_reserved(claim, pod):
                users = [*(status.get("reservedFor") or ()), _user(pod)]
                status = {**status, "reservedFor": users}
            self._write(claim, status)

    def keys_of(self, pod: JSON) -> Sequence[Key]:
        """Return keys by which the claims of a pod differ from those to volumes."""
        return [claim_key((namespace, name)) for namespace, name in _keys(pod) if name]

    def _claims_of(self, pod: JSON) -> Iterator[JSON | None]:
        for key in _keys(pod):
            stored = self._claims.get(key)
            yield stored.obj if stored is not None else None

    def _write(self, claim: JSON, status: JSON) -> None:
        """Write a status, and before it the finalizer that an allocation needs."""
        metadata = claim["metadata"]
        namespace, name = metadata["namespace"], metadata["name"]
        finalizers = metadata.get("finalizers") or []
        if _PROTECTION not in finalizers:
            held = {**metadata, "finalizers": [*finalizers, _PROTECTION]}
            new = {**claim, "metadata": held}
            claim = self._objects.update(CLAIM, namespace, name, new).obj
        new = {**claim, "status": status}
        self._objects.update(CLAIM, namespace, name, new, "status")

    def _allocate(
        self, claim: JSON, node: NodeFacts, taken: set[tuple[str, str, str]]
    ) -> JSON | None:
        """Return devices for a claim on a node, `None` if there are too few.

        `taken` has the devices that the claims before it get, and is added to.
        """
        if claim["spec"]["devices"].get("constraints"):
            return None  # attributes of devices are not compared
        used = self._in_use() | taken
        results: list[JSON] = []
        is_everywhere = True
        for alternatives in alternatives_of(claim):
            for wanted in alternatives:
                found = self._choose(wanted, node, used)
                if found is not None:
                    break
            else:
                return None
            used |= {each.key for each in found}
            taken |= {each.key for each in found}
            is_everywhere = is_everywhere and all(each.is_everywhere for each in found)
            results += [_result(wanted.name, each) for each in found]
        allocation: JSON = {"devices": {"results": results}}
        if not is_everywhere:
            allocation["nodeSelector"] = _only(node.name)
        return allocation

    def _choose(
        self, wanted: Wanted, node: NodeFacts, used: set[tuple[str, str, str]]
    ) -> list[_Device] | None:
        if wanted.is_selective or self._is_selective(wanted.device_class):
            return None
        fitting = [
            each
            for each in self._devices(node)
            if not untolerated(
                each.taints, wanted.tolerations, (NO_SCHEDULE, NO_EXECUTE)
            )
        ]
        free = [each for each in fitting if each.key not in used]
        if wanted.count == 0:
            return free if free and len(free) == len(fitting) else None
        return free[: wanted.count] if len(free) >= wanted.count else None

    def _is_selective(self, device_class: str) -> bool:
        found = self._objects.find(CLASS, "", device_class).obj
        return bool(found["spec"].get("selectors"))

    def _devices(self, node: NodeFacts) -> Iterator[_Device]:
        """Yield the devices that a node can use."""
        for stored in self._slices:
            spec = stored.obj["spec"]
            for each in spec.get("devices", ()):
                place = each if spec.get("perDeviceNodeSelection") else spec
                if _is_at(place, node):
                    yield _Device(
                        spec["driver"],
                        spec["pool"]["name"],
                        each["name"],
                        msgspec.convert(each.get("taints") or [], tuple[Taint, ...]),
                        bool(place.get("allNodes")),
                    )

    def _in_use(self) -> set[tuple[str, str, str]]:
        """Return the devices that are allocated."""
        allocations = (each.obj["status"].get("allocation") for each in self._claims)
        return {
            (result["driver"], result["pool"], result["device"])
            for allocation in allocations
            if allocation
            for result in allocation.get("devices", {}).get("results", ())
        }


def claim_key(key: Key) -> Key:
    """Return a key of a claim to devices that no claim to a volume has."""
    return key[0], f"{CLAIM.plural}/{key[1]}"


def _keys(pod: JSON) -> Iterator[Key]:
    """Yield the claims of a pod; a claim that does not exist yet has no name."""
    statuses = pod.get("status", {}).get("resourceClaimStatuses") or ()
    made = {each["name"]: each.get("resourceClaimName") for each in statuses}
    for each in pod["spec"].get("resourceClaims") or ():
        name = each.get("resourceClaimName")
        if name is None and each["name"] in made and made[each["name"]] is None:
            continue  # the pod needs none
        yield pod["metadata"]["namespace"], name or made.get(each["name"]) or ""


def _is_at(place: JSON, node: NodeFacts) -> bool:
    """Tell whether a node can use devices with these node fields."""
    if place.get("allNodes") or place.get("nodeName") == node.name:
        return True
    return "nodeSelector" in place and _is_on(place["nodeSelector"], node)


def _is_on(selector: JSON | None, node: NodeFacts) -> bool:
    return not selector or matches_terms(selector.get("nodeSelectorTerms", ()), node)


def _only(node: str) -> JSON:
    """Return a selector of one node."""
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {"nodeSelectorTerms": [{"matchFields": [field]}]}


def _result(request: str, device: _Device) -> JSON:
    driver, pool, name = device.key
    return {"request": request, "driver": driver, "pool": pool, "device": name}


def _user(pod: JSON) -> JSON:
    metadata = pod["metadata"]
    return {"resource": "pods", "name": metadata["name"], "uid": metadata["uid"]}


def _is_reserved(claim: JSON, pod: JSON) -> bool:
    """Tell whether a claim is reserved for a pod."""
    users = claim["status"].get("reservedFor") or ()
    return any(each.get("uid") == pod["metadata"]["uid"] for each in users)
