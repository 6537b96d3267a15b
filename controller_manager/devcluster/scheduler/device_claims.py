"""The part of the scheduler that looks at the claims of pods to devices.

Upstream: pkg/scheduler/framework/plugins/dynamicresources. There is no driver here, so
no device is ever allocated: a pod gets a node only after a client has written
allocations to its claims.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.objects import Objects
from controller_manager.devcluster.registry.resource import CLAIMS, DEVICE_CLASSES
from controller_manager.devcluster.storage import Key

from .predicates import NodeFacts, matches_terms

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
    """Yield the requests of a claim, and their alternatives, with their classes."""
    for request in claim["spec"]["devices"].get("requests") or ():
        name = request["name"]
        if "exactly" in request:
            yield name, request["exactly"].get("deviceClassName", "")
        for each in request.get("firstAvailable") or ():
            yield f"{name}/{each['name']}", each.get("deviceClassName", "")


def _is_reserved(claim: JSON, pod: JSON) -> bool:
    """Tell whether a claim is reserved for a pod."""
    users = claim["status"].get("reservedFor") or ()
    return any(each.get("uid") == pod["metadata"]["uid"] for each in users)
