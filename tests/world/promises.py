"""A dozen promises of single controllers, checked at every write.

Whatever holds for all controllers is in `checks`; what a whole run leads to, in `end`.
"""

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from ipaddress import ip_network
from itertools import combinations
from typing import TYPE_CHECKING, Final

from controller_manager.api.json_objects import JSON

from .objects import Write, controller_of, is_active, is_deleted, is_over, uid_of

if TYPE_CHECKING:
    from .world import World

_MEMORY: Final = 180.0
"""Seconds for which a manager may still act on a number that users wanted before."""


@dataclass
class Promises:
    """The promises, and what they remember of the run."""

    world: "World"
    _wanted: defaultdict[str, deque[tuple[float, int]]] = field(
        default_factory=lambda: defaultdict(deque)
    )
    _signed: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.world.before_change = self.look

    def look(self) -> None:
        """Note what users want, before a write of any manager and before a change."""
        now = asyncio.get_running_loop().time()
        for plural, count in _SIZES.items():
            for owner in self.world.stored(plural):
                history, number = self._wanted[uid_of(owner)], count(owner)
                if not history or history[-1][1] != number:
                    history.append((now, number))

    def broken_by(self, write: Write) -> Iterator[str]:
        """Yield each promise that a write breaks."""
        for plural, verb, check in _CHECKS:
            if write.target.plural == plural and verb in (write.verb, ""):
                yield from check(self, write)
        yield from self.collected(write)

    # Pods

    def surplus(self, write: Write) -> Iterator[str]:
        """Check that no owner gets more active pods than it wanted recently."""
        owner = controller_of(write.created)
        if write.is_late or not owner or owner not in self._wanted:
            return
        now, history = asyncio.get_running_loop().time(), self._wanted[owner]
        while len(history) > 1 and history[1][0] < now - _MEMORY:
            history.popleft()
        most = max(number for _, number in history)
        active = sum(is_active(each) for each in self.world.pods_of(owner))
        if active > most:
            yield f"its owner has {active} active pods, and wanted {most} at most"

    def unique(self, write: Write) -> Iterator[str]:
        """Check that a daemon set has one active pod of a revision on a node."""
        owner = controller_of(write.created)
        if write.is_late or not any(
            uid_of(each) == owner for each in self.world.stored("daemonsets")
        ):
            return
        node, revision = _node_of(write.created), _revision_of(write.created)
        beside = [
            each
            for each in self.world.pods_of(owner)
            if is_active(each)
            and (_node_of(each), _revision_of(each)) == (node, revision)
        ]
        if len(beside) > 1:
            yield f"{len(beside)} pods of one revision on the node {node}"

    def evicted(self, write: Write) -> Iterator[str]:
        """Check that pods are evicted from tainted nodes only."""
        if write.controller != "taint-eviction-controller" or write.before is None:
            return
        node = self.world.find("nodes", "", _node_of(write.before))
        taints = (node or {}).get("spec", {}).get("taints") or ()
        if not write.is_late and not any(
            each["effect"] == "NoExecute" for each in taints
        ):
            yield "evicted from a node without a taint"

    # Owners and finalizers

    def collected(self, write: Write) -> Iterator[str]:
        """Check that no object is collected that has an owner, or was orphaned."""
        if write.controller != _COLLECTOR or write.verb != "delete" or not write.before:
            return
        for owner in write.before["metadata"].get("ownerReferences", ()):
            if (uid_of(write.before), owner["uid"]) in self.world.orphaned:
                yield "collected, and users had orphaned it"
            alive = [
                each
                for each in self.world.everything("events")
                if uid_of(each) == owner["uid"]
            ]
            if alive and "foregroundDeletion" not in _finalizers(alive[0]):
                yield f"collected while its owner {owner['name']} lives"

    def unprotected(self, write: Write) -> Iterator[str]:
        """Check that a protected object stays while somebody uses it."""
        before, after = write.before or {}, write.after or {}
        lost = set(_finalizers(before)) - set(_finalizers(after))
        for finalizer in lost & _USERS.keys():
            users = [
                each["metadata"]["name"]
                for plural, uses in _USERS[finalizer]
                for each in self.world.stored(plural)
                if uses(each, before)
            ]
            if users and not write.is_late:
                yield f"lost its protection while {users[0]} uses it"

    # Volumes and nodes

    def bound(self, write: Write) -> Iterator[str]:
        """Check that no volume passes to another claim while its claim needs it."""
        old, new = _claim_of(write.before), _claim_of(write.after)
        if not old or old == new or write.after is None:
            return
        for claim in self.world.stored("persistentvolumeclaims"):
            volume = claim["spec"].get("volumeName")
            if uid_of(claim) == old and volume == write.target.name:
                yield f"taken from the claim {claim['metadata']['name']}"

    def attached(self, write: Write) -> Iterator[str]:
        """Check that an attachment goes after its node has dropped the volume."""
        if write.before is None or write.controller != _ATTACHER or write.is_late:
            return
        spec = write.before["spec"]
        node = self.world.find("nodes", "", spec["nodeName"])
        volume = self.world.find(
            "persistentvolumes", "", spec["source"].get("persistentVolumeName", "")
        )
        handle = ((volume or {}).get("spec", {}).get("csi") or {}).get("volumeHandle")
        listed = (node or {}).get("status", {}).get("volumesAttached") or ()
        if handle and any(each["name"].endswith(f"^{handle}") for each in listed):
            yield "its node lists the volume as attached"

    def exclusive(self, write: Write) -> Iterator[str]:
        """Check that a volume for one node is attached to one; all here are."""
        attached = self.world.stored("volumeattachments")
        name = write.created["metadata"]["name"]
        sources = [
            each["spec"]["source"]
            for each in attached
            if each["metadata"]["name"] == name
        ]
        nodes = [
            each["spec"]["nodeName"]
            for each in attached
            if each["spec"]["source"] in sources
        ]
        if len(nodes) > 1 and not write.is_late:
            yield f"the volume is attached to the nodes {nodes}"

    def ranged(self, write: Write) -> Iterator[str]:
        """Check that no two nodes have the same range of addresses."""
        ranges = [
            (each["metadata"]["name"], ip_network(cidr))
            for each in self.world.stored("nodes")
            for cidr in each["spec"].get("podCIDRs", ())
        ]
        for (name, one), (other, another) in combinations(ranges, 2):
            if write.target.name in (name, other) and one.overlaps(another):
                yield f"the nodes {name} and {other} share {one}"

    # Jobs of cron jobs, and certificates

    def due(self, write: Write) -> Iterator[str]:
        """Check that a cron job has two running jobs only if it allows them."""
        owner = controller_of(write.created)
        for cron_job in self.world.stored("cronjobs"):
            spec = cron_job["spec"]
            if uid_of(cron_job) != owner or spec["concurrencyPolicy"] == "Allow":
                continue
            running = [
                each["metadata"]["name"]
                for each in self.world.stored("jobs")
                if controller_of(each) == owner
                and _is_running(each)
                and not is_deleted(each)
            ]
            if len(running) > 1 and not write.is_late:
                yield f"the cron job has {len(running)} jobs that run"

    def signed(self, write: Write) -> Iterator[str]:
        """Check that only approved requests are signed, each once."""
        if write.after is None:
            return
        status = write.after.get("status", {})
        certificate = status.get("certificate")
        kinds = {each["type"] for each in status.get("conditions", ())}
        if certificate and ("Approved" not in kinds or "Denied" in kinds):
            yield "signed, and not approved"
        if certificate:
            first = self._signed.setdefault(uid_of(write.after), certificate)
            if first != certificate:
                yield "signed twice"


Check = Callable[[Promises, Write], Iterator[str]]

_ATTACHER: Final = "persistentvolume-attach-detach-controller"
_COLLECTOR: Final = "garbage-collector-controller"

_CHECKS: Final[tuple[tuple[str, str, Check], ...]] = (
    ("pods", "create", Promises.surplus),
    ("pods", "create", Promises.unique),
    ("pods", "delete", Promises.evicted),
    ("persistentvolumeclaims", "update", Promises.unprotected),
    ("persistentvolumes", "update", Promises.unprotected),
    ("podgroups", "update", Promises.unprotected),
    ("volumeattributesclasses", "update", Promises.unprotected),
    ("persistentvolumes", "update", Promises.bound),
    ("volumeattachments", "delete", Promises.attached),
    ("volumeattachments", "create", Promises.exclusive),
    ("nodes", "", Promises.ranged),
    ("jobs", "create", Promises.due),
    ("certificatesigningrequests", "", Promises.signed),
)
"""Each promise, with the plural and the verb of the writes that may break it."""


def _parallelism(job: JSON) -> int:
    return int(job["spec"].get("parallelism", 1))


def _replicas(owner: JSON) -> int:
    return int(owner["spec"].get("replicas", 1))


_SIZES: Final[dict[str, Callable[[JSON], int]]] = {
    "jobs": _parallelism,
    "replicasets": _replicas,
    "replicationcontrollers": _replicas,
    "statefulsets": _replicas,
}


def _mounts_claim(pod: JSON, claim: JSON) -> bool:
    names = (
        (each.get("persistentVolumeClaim") or {}).get("claimName")
        for each in pod["spec"].get("volumes", ())
    )
    same = pod["metadata"]["namespace"] == claim["metadata"]["namespace"]
    is_used = not is_over(pod) and bool(_node_of(pod))
    return same and is_used and claim["metadata"]["name"] in names


def _is_claimed(claim: JSON, volume: JSON) -> bool:
    return (
        claim["spec"].get("volumeName") == volume["metadata"]["name"]
        and _claim_of(volume) == uid_of(claim)
        and claim.get("status", {}).get("phase") == "Bound"
    )


def _is_in_group(pod: JSON, group: JSON) -> bool:
    named = (pod["spec"].get("schedulingGroup") or {}).get("podGroupName")
    same = pod["metadata"]["namespace"] == group["metadata"]["namespace"]
    return same and named == group["metadata"]["name"] and not is_over(pod)


def _has_class(obj: JSON, attributes_class: JSON) -> bool:
    named = obj["spec"].get("volumeAttributesClassName")
    return bool(named == attributes_class["metadata"]["name"])


_USERS: Final[dict[str, tuple[tuple[str, Callable[[JSON, JSON], bool]], ...]]] = {
    "kubernetes.io/pvc-protection": (("pods", _mounts_claim),),
    "kubernetes.io/pv-protection": (("persistentvolumeclaims", _is_claimed),),
    "scheduling.k8s.io/podgroup-protection": (("pods", _is_in_group),),
    "kubernetes.io/vac-protection": (
        ("persistentvolumeclaims", _has_class),
        ("persistentvolumes", _has_class),
    ),
}
"""Who uses an object, by the finalizer that protects it."""


def _finalizers(obj: JSON) -> list[str]:
    return list(obj.get("metadata", {}).get("finalizers", ()))


def _claim_of(volume: JSON | None) -> str:
    reference = (volume or {}).get("spec", {}).get("claimRef") or {}
    return str(reference.get("uid", ""))


def _revision_of(pod: JSON) -> str:
    return str(pod["metadata"].get("labels", {}).get("controller-revision-hash", ""))


def _node_of(pod: JSON) -> str:
    """Return the node that a pod runs on, or is made for."""
    if node := pod["spec"].get("nodeName"):
        return str(node)
    affinity = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {})
    for term in required.get("nodeSelectorTerms", ()):
        for field_of in term.get("matchFields", ()):
            return str(field_of["values"][0])
    return ""


def _is_running(job: JSON) -> bool:
    return not any(
        each["type"] in ("Complete", "Failed") and each["status"] == "True"
        for each in job.get("status", {}).get("conditions", ())
    )
