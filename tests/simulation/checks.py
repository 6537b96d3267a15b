"""What must never be: looked for at every write, and at every plan."""

import asyncio
import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from unittest import mock

from controller_manager.api.apps.v1 import DeploymentSpec, ReplicaSet
from controller_manager.api.intstr import scaled_value
from controller_manager.client.transport import Request, Response
from controller_manager.controllers.apps.deployment import decide as deployments
from controller_manager.controllers.apps.deployment.rollout import Rollout
from controller_manager.controllers.apps.deployment.scaling import Plan
from controller_manager.runtime.worker import Workers
from tests.simulation.loop import PROCESS, VirtualLoop
from tests.simulation.managers import Manager
from tests.simulation.world import World

JSON = dict[str, Any]

MEMORY: Final = 700.0
"""Seconds for which a manager may still act on what was wanted: a watch may lag
for five minutes, or fall silent, which is noticed after three more."""

MOST_SYNCS: Final = 100
"""Keys that may be looked at in one turn: fifty are 5 ms here, and a few more may
begin before anybody notices."""

_ADOPTION: Final = 90.0
"""Seconds that may pass between reading an owner and adopting for it, since a
process may be stopped in between."""

_OURS: Final = "deployment.kubernetes.io/"
_ROLLBACK: Final = "deprecated.deployment.rollback.to"


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
    _syncs_of_turn: tuple[int, int, int] = (0, 0, 0)
    """A process, a turn of the loop, and how many keys it looked at in it."""

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

    def most_pods(self, replica_set: JSON) -> int:
        now = asyncio.get_running_loop().time()
        return self._replica_sets[replica_set["metadata"]["uid"]].most(now)

    @contextmanager
    def watching_turns(self) -> Iterator[None]:
        """Check, while entered, how much is done before others get their turn."""
        process = Workers._process

        async def noted(workers: Workers, key: str) -> None:
            self._note_sync()
            await process(workers, key)

        with mock.patch.object(Workers, "_process", noted):
            yield

    def _note_sync(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        number, turn, syncs = self._syncs_of_turn
        now = PROCESS.get(), loop.turn
        syncs = syncs + 1 if now == (number, turn) else 1
        self._syncs_of_turn = (*now, syncs)
        if syncs == MOST_SYNCS:
            self.violate(f"{syncs} keys were looked at in one turn of the event loop")

    @contextmanager
    def watching_plans(self) -> Iterator[None]:
        """Check every plan that sizes replica sets while entered."""
        with ExitStack() as stack:
            for name, keeps_available in _PLANNERS.items():
                planner = self._checked(getattr(deployments, name), keeps_available)
                stack.enter_context(mock.patch.object(deployments, name, planner))
            yield

    def _checked(
        self, planner: Callable[[Rollout], Plan], keeps_available: bool
    ) -> Callable[[Rollout], Plan]:
        def checked(rollout: Rollout) -> Plan:
            plan = planner(rollout)
            for problem in plan_problems(rollout, plan, keeps_available):
                self.violate(problem)
            return plan

        return checked


_PLANNERS: Final = {
    "plan_rolling": True,
    "plan_scaling": False,
    "plan_growing": False,
}
"""What makes plans, and whether these must leave enough available ones."""


def plan_problems(rollout: Rollout, plan: Plan, keeps_available: bool) -> Iterator[str]:
    """Yield how a plan breaks the bounds, going by what the manager believes.

    What is believed available is what is reported so, as far as there is room
    for it in the size that a replica set has been given.
    """
    spec = rollout.deployment.spec
    replicas = spec.replicas if spec.replicas is not None else 1
    surge, unavailable = _bounds(spec, replicas)
    before = {each.metadata.uid: each.spec.replicas or 0 for each in rollout.all}
    planned = {each.replica_set.metadata.uid: each.replicas for each in plan}
    after = {**before, **planned}
    name = rollout.deployment.metadata.name
    if sum(after.values()) > max(replicas + surge, sum(before.values())):
        yield f"{name}: a plan of {sum(after.values())} replicas, surge is {surge}"
    had, left = _available(rollout.all, before), _available(rollout.all, after)
    if keeps_available and left < min(replicas - unavailable, had):
        yield (
            f"{name}: a plan leaves {left} of {had} available ones, of {replicas} "
            f"at most {unavailable} may not be"
        )


def _bounds(spec: DeploymentSpec, replicas: int) -> tuple[int, int]:
    """Return by how many there may be more, and fewer available ones."""
    rolling = spec.strategy.rolling_update
    if spec.strategy.type != "RollingUpdate" or rolling is None:
        return 0, replicas
    surge = scaled_value(rolling.max_surge or 0, replicas, round_up=True)
    unavailable = scaled_value(rolling.max_unavailable or 0, replicas, round_up=False)
    return surge, unavailable or (0 if surge else 1)


def _available(replica_sets: Iterable[ReplicaSet], sizes: dict[str, int]) -> int:
    return sum(
        min(each.status.available_replicas, sizes[each.metadata.uid])
        for each in replica_sets
    )


@dataclass
class Observer:
    """Looks at the writes of one manager."""

    checks: Checks
    manager: Manager
    _read: dict[str, float] = field(default_factory=dict)
    """When an owner was last read and lived, by its uid."""

    def look(self, request: Request) -> JSON | None:
        """Return the object that a write is about, before it."""
        self.checks.note_wishes()
        return self._object(request)

    def _object(self, request: Request) -> JSON | None:
        namespace, plural, name = target_of(request.path)
        if not name or plural not in _ALLOWED:
            return None
        return self.checks.world.find(plural, namespace, name)

    def has_read(self, request: Request, answer: Response) -> None:
        """Note that an owner lives."""
        _, plural, name = target_of(request.path)
        if plural in ("deployments", "replicasets") and name and answer.status == 200:
            metadata = json.loads(answer.body)["metadata"]
            if "deletionTimestamp" not in metadata:
                self._read[metadata["uid"]] = asyncio.get_running_loop().time()

    def applied(self, request: Request, answer: Response, before: JSON | None) -> None:
        """Check a write, whether it was accepted or not."""
        checks = self.checks
        now = asyncio.get_running_loop().time()
        _, plural, _ = target_of(request.path)
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
        # A stopped process cannot call back what a slow webhook holds up.
        if request.method == "POST" and plural == "pods" and not self.manager.is_paused:
            self._check_surplus(json.loads(answer.body))
        if before is not None and request.method == "DELETE":
            self._check_collected(request, before)
        if before is None or after is None or request.method == "DELETE":
            return
        self._check_owner(request, before, after)
        self._check_nothing_lost(request, plural, before, after)

    def _check_leadership(self, request: Request) -> None:
        if self.manager.is_paused:
            return  # it was sent in time, and nobody can call it back
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
                each for each in self.checks.world.stored("pods") if lives(each, uid)
            ]
            most = self.checks.most_pods(replica_set)
            if len(live) > most:
                self.checks.violate(
                    f"{replica_set['metadata']['name']} owns {len(live)} live pods and "
                    f"never wanted more than {most}"
                )

    def _check_collected(self, request: Request, before: JSON) -> None:
        """Have nothing collected whose owner lives, whatever was believed."""
        options = json.loads(request.body or b"{}")
        if "propagationPolicy" not in options:
            return  # not by the garbage collector
        metadata = before["metadata"]
        for owner in metadata.get("ownerReferences", []):
            if (metadata["uid"], owner["uid"]) in self.checks.world.spared:
                self.checks.violate(f"{request.path}: collected, and was to be kept")
            if (alive := self._living_owner(before, owner["uid"])) is not None:
                finalizers = alive["metadata"].get("finalizers", [])
                if "foregroundDeletion" not in finalizers:
                    self.checks.violate(
                        f"{request.path}: collected while its owner {owner['name']} "
                        "lives"
                    )

    def _living_owner(self, obj: JSON, uid: str) -> JSON | None:
        namespace = obj["metadata"]["namespace"]
        for plural in ("deployments", "replicasets"):
            for each in self.checks.world.stored(plural, namespace):
                if each["metadata"]["uid"] == uid:
                    return each
        return None

    def _check_owner(self, request: Request, before: JSON, after: JSON) -> None:
        old, new = controller_of(before), controller_of(after)
        if old and new and old != new:
            self.checks.violate(f"{request.path}: taken from its owner {old} by {new}")
        now = asyncio.get_running_loop().time()
        if new and not old and self._read.get(new, -_ADOPTION) + _ADOPTION <= now:
            self.checks.violate(f"{request.path}: adopted by {new}, who may be gone")

    def _check_nothing_lost(
        self, request: Request, plural: str, before: JSON, after: JSON
    ) -> None:
        """Have a write change what it is about, and nothing else."""
        part = "status" if request.path.endswith("/status") else "object"
        allowed = _ALLOWED[plural][part]
        for path, old, new in differences(before, after):
            if not allowed(path, old, new):
                self.checks.violate(
                    f"{request.method} {request.path} changed {'.'.join(path)}: "
                    f"{old} to {new}"
                )


# What a write may change

Path = tuple[str, ...]


def differences(before: Any, after: Any, path: Path = ()) -> Iterator[Any]:
    """Yield each path at which two objects differ, with both values."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted({*before, *after}):
            yield from differences(before.get(key), after.get(key), (*path, key))
    elif (
        isinstance(before, list)
        and isinstance(after, list)
        and len(before) == len(after)
    ):
        for number, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from differences(old, new, (*path, str(number)))
    elif before != after:
        yield path, before, after


_SERVERS: Final = (("metadata", "resourceVersion"), ("metadata", "generation"))


def _only(*allowed: Path) -> Callable[[Path, Any, Any], bool]:
    """Allow changes below some paths, and of what the server counts."""

    def may(path: Path, _: Any, __: Any) -> bool:
        return path in _SERVERS or any(path[: len(each)] == each for each in allowed)

    return may


_COLLECTED: Final = (("metadata", "ownerReferences"), ("metadata", "finalizers"))
"""What the garbage collector changes."""


def _deployment_object(path: Path, old: Any, new: Any) -> bool:
    """Allow a rollback: a template is put back, the request for it goes."""
    if path[:2] == ("metadata", "annotations"):
        return _is_ours(path, old, new)
    return _only(("spec", "template"), *_COLLECTED)(path, old, new)


def _deployment_status(path: Path, old: Any, new: Any) -> bool:
    if path[:2] == ("metadata", "annotations"):
        return _is_ours(path, old, new)
    return _only(("status",))(path, old, new)


def _is_ours(path: Path, _: Any, new: Any) -> bool:
    """Tell whether annotations change only by what the controller keeps there."""
    if len(path) == len(("metadata", "annotations")):
        return all(key.startswith(_OURS) for key in new or {})
    return path[2].startswith((_OURS, _ROLLBACK))


def _replica_set_object(path: Path, old: Any, new: Any) -> bool:
    """Sizes and annotations; the latter are copied from the deployment, never lost."""
    if path[:2] == ("metadata", "annotations"):
        return new is not None
    return _only(
        ("spec", "replicas"),
        ("spec", "minReadySeconds"),
        *_COLLECTED,
    )(path, old, new)


_ALLOWED: Final[dict[str, dict[str, Callable[[Path, Any, Any], bool]]]] = {
    "deployments": {"object": _deployment_object, "status": _deployment_status},
    "replicasets": {"object": _replica_set_object, "status": _only(("status",))},
    "pods": {
        "object": _only(*_COLLECTED),
        "status": _only(("status", "phase"), ("status", "conditions")),
    },
}


def target_of(path: str) -> tuple[str, str, str]:
    """Return namespace, plural and name of what a path is about."""
    parts = path.partition("/namespaces/")[2].split("/")
    namespace, plural, name = [*parts, "", "", ""][:3]
    return namespace, plural, name


def controller_of(obj: JSON) -> str:
    """Return the uid of an object's controller, empty for none."""
    for owner in obj["metadata"].get("ownerReferences", []):
        if owner.get("controller"):
            return str(owner["uid"])
    return ""


def lives(pod: JSON, owner: str) -> bool:
    """Tell whether a pod is one of an owner's that count."""
    return (
        controller_of(pod) == owner
        and "deletionTimestamp" not in pod["metadata"]
        and pod.get("status", {}).get("phase") not in ("Failed", "Succeeded")
    )
