"""Faults of machines, and strangers who change what controllers look after."""

import asyncio
import json
import random
from collections.abc import Callable, Mapping
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time
from controller_manager.devcluster.registry.scheduling import (
    find_budgets,
    take_disruption,
)
from controller_manager.devcluster.scheme.statuses import Refusal

from .faults import MACHINE_FAULTS, STRANGERS, Fault
from .managers import Manager
from .network import OldReplica, SlowCreates, forget_history
from .objects import controller_of, is_deleted, is_over, uid_of
from .world import World

STEP: Final = 5.0
"""Seconds per step; in each is at most one fault of a machine, and one stranger."""

MOST_JUMP: Final = 60.0
"""Seconds by which a clock that has jumped may be wrong."""

STRANGE: Final[JSON] = {"app": "stranger"}
"""The labels of objects that a stranger has taken away."""

_OF_JOBS: Final = "batch.kubernetes.io/job-name"
_PODS_LAG: Final = 0.25
_RECOVERY: Final = 4.0
_APART: Final = 2.0


async def disturb(world: World) -> None:
    """Inject the faults of each step, until cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(STEP)
        if world.faults.annoyed:
            clean_up(world)  # a pod that a stranger has taken away may use a claim
        for chances, inject in ((MACHINE_FAULTS, _break), (STRANGERS, _meddle)):
            fault = world.faults.draw(chances, inject.__name__.strip("_"), loop.time())
            if fault is not None:
                # At a moment that coincides with no other timer.
                loop.call_later(STEP * fault.share, inject, world, fault)


async def meddle_with_all(world: World) -> None:
    """Let strangers change an object of each kind in each way, one after the other."""
    loop = asyncio.get_running_loop()
    for kind, (_, plurals) in _STRANGERS.items():
        for plural in plurals:
            await asyncio.sleep(_APART)
            where = f"{kind} {plural}"
            share = random.Random(f"{world.seed} {where}").random()
            _meddle(world, Fault(where, kind, loop.time(), share), (plural,))
    await asyncio.sleep(_APART)
    clean_up(world)


def clean_up(world: World) -> None:
    """Delete what strangers have taken away from its controller for good.

    Nobody takes back a pod that has ended, which holds its claims, and a job that has
    ended takes none. Of several pods that cannot start, a stateful set replaces none,
    as upstream's.
    """
    for plural in ("replicasets", "pods"):
        for each in world.stored(plural):
            labels = each["metadata"].get("labels", {})
            was_made = "generateName" in each["metadata"] and is_over(each)
            is_left = not controller_of(each) and (was_made or _OF_JOBS in labels)
            if labels == STRANGE or is_left or _is_broken(each):
                world.delete(plural, each, grace=0, policy="Background")


def _is_broken(obj: JSON) -> bool:
    containers = obj["spec"].get("containers", ())
    return any(each["image"].startswith("broken") for each in containers)


# Machines


def _break(world: World, fault: Fault) -> None:
    manager = fault.rng.choice(world.managers)
    _MACHINES[fault.kind](world, manager, fault.rng)


Machine = Callable[[World, Manager, random.Random], None]


def _crash(_: World, manager: Manager, __: random.Random) -> None:
    manager.crash()


def _pause(_: World, manager: Manager, rng: random.Random) -> None:
    manager.pause(rng.uniform(1, 40))


def _cut_off_lease(_: World, manager: Manager, rng: random.Random) -> None:
    manager.connection.no_lease_until = _soon(rng, 5, 40)


def _take_over(world: World, manager: Manager, rng: random.Random) -> None:
    """Let the lease end while creates wait for a webhook."""
    manager.connection.no_lease_until = until = _soon(rng, 20, 40)
    slow = SlowCreates(rng.uniform(5, 25), until)
    manager.connection.slow_creates |= dict.fromkeys(world.used(), slow)


def _lag(world: World, manager: Manager, rng: random.Random) -> None:
    """Let the watches of a resource that somebody uses bring nothing for a while.

    Most controllers count pods, so it is often their turn.
    """
    plural = "pods" if rng.random() < _PODS_LAG else rng.choice(world.used())
    manager.connection.lagging[plural] = _soon(rng, 5, 60)


def _old_replica(world: World, manager: Manager, rng: random.Random) -> None:
    """Connect to a server that is behind; often the manager starts anew there."""
    then = _soon(rng, -60, -5)
    version = next((each for at, each in reversed(world.versions) if at < then), 0)
    manager.connection.old = OldReplica(version, _soon(rng, 5, 40))
    manager.connection.cut()
    if rng.random() < 0.5:
        manager.crash()


def _restart_server(world: World, _: Manager, rng: random.Random) -> None:
    """Break all connections; the watch cache is empty afterwards."""
    forget_history(world.server)
    until = _soon(rng, 1, 20)
    for manager in world.managers:
        manager.connection.down_until = until
        manager.connection.cut()


def _cut_off(_: World, manager: Manager, rng: random.Random) -> None:
    """Let one manager reach no API server, for longer than it may lead."""
    manager.connection.down_until = _soon(rng, 20, 60)
    manager.connection.cut()


def _slow_down_creates(world: World, manager: Manager, rng: random.Random) -> None:
    """Let a webhook delay creates by up to 25 s, longer than the lease lasts."""
    plural = rng.choice(world.used())
    until = _soon(rng, 30, 90)
    manager.connection.slow_creates[plural] = SlowCreates(rng.uniform(2, 25), until)


def _refuse_list(world: World, manager: Manager, rng: random.Random) -> None:
    plural = rng.choice(world.used())
    manager.connection.refused[plural] = _soon(rng, 10, 60)
    manager.connection.cut()


def _cut_idle_streams(_: World, manager: Manager, rng: random.Random) -> None:
    manager.connection.cuts_idle_until = _soon(rng, 30, 120)
    manager.connection.cut()


def _leave_half_open(_: World, manager: Manager, __: random.Random) -> None:
    manager.connection.fall_silent()


def _jump(_: World, manager: Manager, rng: random.Random) -> None:
    """Set the wall clock of a manager while it runs, to a time that is wrong."""
    manager.set_clock(rng.uniform(-MOST_JUMP, MOST_JUMP))


def _soon(rng: random.Random, least: float, most: float) -> float:
    return asyncio.get_running_loop().time() + rng.uniform(least, most)


_MACHINES: Final[Mapping[str, Machine]] = {
    "crash": _crash,
    "pause": _pause,
    "lease cut off": _cut_off_lease,
    "takeover in a write": _take_over,
    "resource lags": _lag,
    "old replica": _old_replica,
    "api server restarts": _restart_server,
    "api server unreachable": _cut_off,
    "slow creates": _slow_down_creates,
    "list refused": _refuse_list,
    "idle streams cut": _cut_idle_streams,
    "half-open watches": _leave_half_open,
    "clock jumps": _jump,
}


def heal(world: World) -> None:
    """End all faults that last for a while."""
    for manager in world.managers:
        manager.connection.heal()
        manager.set_clock(0.0)


# Strangers


def _meddle(world: World, fault: Fault, only: tuple[str, ...] = ()) -> None:
    """Change an object that a controller has made; it has to put that right."""
    act, plurals = _STRANGERS[fault.kind]
    found = [
        (plural, obj)
        for plural in only or plurals
        for obj in world.stored(plural)
        if uid_of(obj) in world.made and not is_deleted(obj)
    ]
    if not found:
        return
    plural, obj = fault.rng.choice(found)
    try:
        act(world, plural, obj)
    except Refusal:
        return  # another client has just changed the object


def _delete(world: World, plural: str, obj: JSON) -> None:
    world.delete(plural, obj, policy="Background")


def _delete_at_once(world: World, plural: str, obj: JSON) -> None:
    world.delete(plural, obj, grace=0)


def _fail(world: World, plural: str, pod: JSON) -> None:
    def end(obj: JSON) -> None:
        obj.setdefault("status", {}).update(phase="Failed")
        _set_ready(world, obj, "False")

    if not is_over(pod):  # a pod ends once
        world.change(plural, pod, end, "status")


def _set_ready(world: World, pod: JSON, status: str) -> None:
    for each in pod.get("status", {}).get("conditions", []):
        if each["type"] == "Ready" and each["status"] != status:
            each["status"] = status
            each["lastTransitionTime"] = format_time(world.clock.now())


def _restart(world: World, plural: str, pod: JSON) -> None:
    """Let a container crash: its pod is not ready for a few seconds."""
    namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]

    def set_ready(status: str) -> None:
        found = world.find(plural, namespace, name)
        if found and uid_of(found) == uid_of(pod) and not is_over(found):
            world.change(
                plural, found, lambda obj: _set_ready(world, obj, status), "status"
            )

    set_ready("False")
    asyncio.get_running_loop().call_later(_RECOVERY, set_ready, "True")


def _evict(world: World, plural: str, pod: JSON) -> None:
    """Delete a pod if its budget allows that."""
    for budget in find_budgets(world.server.storage, pod):
        take_disruption(world.server.objects, budget, pod)
    world.delete(plural, pod)


def _copy(world: World, plural: str, pod: JSON) -> None:
    """Create a pod like one of a controller, which then has one too many."""
    metadata = pod["metadata"]
    owners = metadata.get("ownerReferences", [{"kind": ""}])
    if owners[0]["kind"] in _COUNTING:
        kept = {key: metadata[key] for key in ("labels", "ownerReferences")}
        copied = {"metadata": {"generateName": metadata["generateName"], **kept}}
        spec = json.loads(json.dumps(pod["spec"]))
        world.create(plural, metadata["namespace"], {**copied, "spec": spec})


_COUNTING: Final = ("DaemonSet", "ReplicaSet", "ReplicationController")
"""Kinds of controllers that delete a pod which they have not made."""


def _disown(world: World, plural: str, obj: JSON) -> None:
    world.change(plural, obj, lambda each: each["metadata"].pop("ownerReferences", 0))


def _relabel(world: World, plural: str, obj: JSON) -> None:
    world.change(
        plural, obj, lambda each: each["metadata"].update(labels=dict(STRANGE))
    )


def _edit(world: World, plural: str, obj: JSON) -> None:
    if plural != "replicasets" or controller_of(obj):
        world.change(plural, obj, _EDITS[plural])


def _add_replica(obj: JSON) -> None:
    obj["spec"]["replicas"] += 1


_EDITS: Final[Mapping[str, Callable[[JSON], None]]] = {
    "replicasets": _add_replica,
    "endpoints": lambda obj: obj.update(subsets=[]),
    "endpointslices": lambda obj: obj.update(endpoints=[]),
    "configmaps": lambda obj: obj.update(data={}),
}


def _overwrite_status(world: World, plural: str, obj: JSON) -> None:
    if controller_of(obj):
        world.change(plural, obj, lambda each: each.update(status=_WRONG), "status")


_WRONG: Final[JSON] = {"replicas": 99}
_PODS: Final = ("pods",)
_DEPENDENTS: Final = ("pods", "replicasets")
_RESTORED: Final = (
    "pods",
    "replicasets",
    "endpoints",
    "endpointslices",
    "configmaps",
    "serviceaccounts",
    "clustertrustbundles",
)
"""What controllers make again when it is deleted."""

_STRANGERS: Final[
    Mapping[str, tuple[Callable[[World, str, JSON], None], tuple[str, ...]]]
] = {
    "deleted": (_delete, _RESTORED),
    "deleted at once": (_delete_at_once, _PODS),
    "failed": (_fail, _PODS),
    "not ready": (_restart, _PODS),
    "evicted": (_evict, _PODS),
    "copied": (_copy, _PODS),
    "disowned": (_disown, _DEPENDENTS),
    "relabelled": (_relabel, _DEPENDENTS),
    "edited": (_edit, tuple(_EDITS)),
    "status overwritten": (_overwrite_status, ("replicasets",)),
}
