"""What must never be, and what must come out."""

import asyncio
import json
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final

from controller_manager.api.intstr import scaled_value
from controller_manager.api.resources import REPLICASETS
from controller_manager.client.transport import Request, Response
from tests.simulation.world import NAMESPACE, Manager, World

JSON = dict[str, Any]

MEMORY: Final = 400.0
"""Seconds for which a manager may still act on what was wanted: a watch that
falls silent is noticed after three minutes, and then read anew."""

_CREATED: Final = 201


@dataclass
class Wanted:
    """How many were wanted of something, for as long as that may matter."""

    history: deque[tuple[float, int]] = field(default_factory=deque)

    def note(self, at: float, number: int) -> None:
        if not self.history or self.history[-1][1] != number:
            self.history.append((at, number))

    def most(self, at: float) -> int:
        """Return the highest number that was wanted lately, or still is."""
        while len(self.history) > 1 and self.history[1][0] < at - MEMORY:
            self.history.popleft()
        return max((number for _, number in self.history), default=0)


@dataclass
class Checks:
    """Looks at every write of every manager."""

    world: World
    violations: list[str] = field(default_factory=list)
    writes: int = 0
    last_write: float = 0.0
    trace: list[str] = field(default_factory=list)
    _replica_sets: dict[str, Wanted] = field(default_factory=dict)
    _deployments: dict[str, Wanted] = field(default_factory=dict)

    def of(self, manager: Manager) -> "Observer":
        """Return the observer of one manager."""
        return Observer(self, manager)

    def violate(self, what: str) -> None:
        now = asyncio.get_running_loop().time()
        self.violations.append(f"{now:10.3f} s  {what}")

    def note_wishes(self) -> None:
        """Remember what is wanted now, before it is changed."""
        now = asyncio.get_running_loop().time()
        for obj in self.world.stored("replicasets"):
            wanted = self._replica_sets.setdefault(obj["metadata"]["uid"], Wanted())
            wanted.note(now, obj["spec"]["replicas"])
        for obj in self.world.stored("deployments"):
            wanted = self._deployments.setdefault(obj["metadata"]["uid"], Wanted())
            wanted.note(now, _ceiling(obj["spec"]))

    def most_pods(self, replica_set: JSON) -> int:
        now = asyncio.get_running_loop().time()
        return self._replica_sets[replica_set["metadata"]["uid"]].most(now)

    def most_replicas(self, deployment: JSON) -> int:
        now = asyncio.get_running_loop().time()
        return self._deployments[deployment["metadata"]["uid"]].most(now)


def _ceiling(spec: JSON) -> int:
    """Return how many replicas a deployment's replica sets may have together."""
    replicas: int = spec["replicas"]
    strategy = spec["strategy"]
    if strategy["type"] != "RollingUpdate":
        return replicas
    surge = strategy["rollingUpdate"]["maxSurge"]
    return replicas + scaled_value(surge, replicas, round_up=True)


@dataclass
class Observer:
    """Looks at the writes of one manager."""

    checks: Checks
    manager: Manager

    def look(self, request: Request) -> JSON | None:
        """Return the object that a write is about, before it."""
        self.checks.note_wishes()
        return self._object(request)

    def _object(self, request: Request) -> JSON | None:
        plural, name = _target(request.path)
        if not name or plural not in ("deployments", "replicasets", "pods"):
            return None
        kind = self.checks.world.kind(plural)
        collection = self.checks.world.server.storage.collection(kind.resource)
        stored = collection.get((NAMESPACE, name))
        return stored.obj if stored is not None else None

    def applied(self, request: Request, answer: Response, before: JSON | None) -> None:
        """Check a write, whether it was accepted or not."""
        checks = self.checks
        now = asyncio.get_running_loop().time()
        plural, name = _target(request.path)
        if plural in ("events", "leases"):
            return
        checks.trace.append(
            f"{now:.6f} {self.manager.number} {request.method} {request.path} "
            f"{answer.status}"
        )
        self._check_leadership(request)
        if answer.status >= 300:
            return
        checks.writes += 1
        checks.last_write = now
        after = self._object(request)
        if request.method == "POST" and plural == "pods":
            self._check_surplus(json.loads(answer.body))
        if before is None or after is None:
            return
        self._check_owner(request, before, after)
        if request.path.endswith("/status"):
            self._check_nothing_lost(request, before, after)
        if plural == "replicasets":
            self._check_ceiling(name, before, after)

    def _check_leadership(self, request: Request) -> None:
        daemon = self.manager.manager
        elector = daemon.elector if daemon is not None else None
        if elector is None:
            return
        leases = self.checks.world.server.storage.collection(
            "leases.coordination.k8s.io"
        )
        lease = leases.get(("kube-system", "kube-controller-manager"))
        holder = lease.obj["spec"].get("holderIdentity") if lease else None
        if holder != elector.identity:
            self.checks.violate(
                f"manager {self.manager.number} wrote {request.method} {request.path} "
                f"while {holder} holds the lease"
            )

    def _check_surplus(self, pod: JSON) -> None:
        owners = pod["metadata"].get("ownerReferences", [])
        for replica_set in self.checks.world.stored("replicasets"):
            uid = replica_set["metadata"]["uid"]
            if all(owner["uid"] != uid for owner in owners):
                continue
            live = [
                each for each in self.checks.world.stored("pods") if _lives(each, uid)
            ]
            most = self.checks.most_pods(replica_set)
            if len(live) > most:
                self.checks.violate(
                    f"{replica_set['metadata']['name']} owns {len(live)} live pods and "
                    f"never wanted more than {most}"
                )

    def _check_owner(self, request: Request, before: JSON, after: JSON) -> None:
        old, new = _controller(before), _controller(after)
        if old and new and old != new:
            self.checks.violate(f"{request.path}: taken from its owner {old} by {new}")

    def _check_nothing_lost(self, request: Request, before: JSON, after: JSON) -> None:
        for part in ("labels", "annotations", "ownerReferences", "finalizers"):
            old, new = before["metadata"].get(part), after["metadata"].get(part)
            if part == "annotations":
                old, new = _foreign(old), _foreign(new)
            if old != new:
                self.checks.violate(
                    f"{request.path}: a status write changed {part}: {old} to {new}"
                )
        if before["spec"] != after["spec"]:
            self.checks.violate(f"{request.path}: a status write changed the spec")

    def _check_ceiling(self, name: str, before: JSON, after: JSON) -> None:
        if after["spec"]["replicas"] <= before["spec"]["replicas"]:
            return
        owner = _controller(after)
        for deployment in self.checks.world.stored("deployments"):
            if deployment["metadata"]["uid"] != owner:
                continue
            total = after["spec"]["replicas"] + self._believed(owner, name)
            most = self.checks.most_replicas(deployment)
            excess = total - (after["spec"]["replicas"] - before["spec"]["replicas"])
            if total > max(most, excess):
                self.checks.violate(
                    f"{name} was scaled to {after['spec']['replicas']}: "
                    f"{total} together, and never more than {most} were allowed"
                )

    def _believed(self, owner: str, but: str) -> int:
        """Return the size of an owner's other replica sets, as this manager sees it.

        It cannot know of a stranger's edit that its watch has not brought yet.
        """
        daemon = self.manager.manager
        if daemon is None:
            return 0
        store = daemon.informers.informer(REPLICASETS).store
        return sum(
            each.spec.replicas or 0
            for each in store
            if each.metadata.name != but
            and any(
                reference.controller and reference.uid == owner
                for reference in each.metadata.owner_references or ()
            )
        )


def _target(path: str) -> tuple[str, str]:
    """Return the plural and the name that a path ends in."""
    parts = path.partition("/namespaces/")[2].split("/")
    return parts[1] if len(parts) > 1 else "", parts[2] if len(parts) > 2 else ""


def _controller(obj: JSON) -> str:
    for owner in obj["metadata"].get("ownerReferences", []):
        if owner.get("controller"):
            return str(owner["uid"])
    return ""


def _lives(pod: JSON, owner: str) -> bool:
    return (
        _controller(pod) == owner
        and "deletionTimestamp" not in pod["metadata"]
        and pod.get("status", {}).get("phase") not in ("Failed", "Succeeded")
    )


def _foreign(annotations: dict[str, str] | None) -> dict[str, str]:
    """Return the annotations that are not the deployment controller's."""
    return {
        key: value
        for key, value in (annotations or {}).items()
        if not key.startswith("deployment.kubernetes.io/")
    }


# The end


def end_state(world: World) -> JSON:
    """Return what a user sees of every deployment, without times and names."""
    state: JSON = {}
    for deployment in world.stored("deployments"):
        uid = deployment["metadata"]["uid"]
        status = deployment.get("status", {})
        replica_sets = [
            each for each in world.stored("replicasets") if _controller(each) == uid
        ]
        pods = [
            pod
            for replica_set in replica_sets
            for pod in world.stored("pods")
            if _lives(pod, replica_set["metadata"]["uid"])
        ]
        state[deployment["metadata"]["name"]] = {
            "replicas": deployment["spec"]["replicas"],
            "image": _image(deployment["spec"]["template"]),
            "sizes": {
                key: status.get(key, 0)
                for key in (
                    "replicas",
                    "updatedReplicas",
                    "readyReplicas",
                    "availableReplicas",
                    "unavailableReplicas",
                )
            },
            "observed": status.get("observedGeneration")
            == deployment["metadata"]["generation"],
            "conditions": sorted(
                (each["type"], each["status"], each["reason"])
                for each in status.get("conditions", [])
            ),
            "pods": sorted(_image(pod) for pod in pods),
        }
    return state


def _image(template: JSON) -> str:
    return str(template["spec"]["containers"][0]["image"])


def wrong_caches(world: World) -> list[str]:
    """Return where a cache of a running manager is not equal to the server."""
    problems = []
    for manager in world.managers:
        daemon = manager.manager
        if daemon is None or not daemon.synced.is_set():
            problems.append(f"manager {manager.number} is not synced")
            continue
        for informer in daemon.informers.all():
            collection = world.server.storage.collection(
                informer.resource.group_resource
            )
            server = {
                f"{each.obj['metadata']['namespace']}/{each.obj['metadata']['name']}": (
                    each.obj["metadata"]["resourceVersion"]
                )
                for each in collection
            }
            cached = {
                f"{each.metadata.namespace}/{each.metadata.name}": (
                    each.metadata.resource_version
                )
                for each in informer.store
            }
            if server != cached:
                differing = sorted(set(server.items()) ^ set(cached.items()))
                problems.append(
                    f"manager {manager.number}: {informer.resource.plural}: {differing}"
                )
    return problems
