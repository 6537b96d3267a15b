"""Disturbances: faults of machines, and unexpected edits of objects."""

import asyncio
from collections.abc import Callable
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import Refusal
from tests.simulation.faults import WORLD_FAULTS, Fault
from tests.simulation.managers import Manager
from tests.simulation.network import (
    WATCHED,
    OldReplica,
    SlowCreates,
    forget_history,
)
from tests.simulation.world import DELETABLE_NAMESPACE, NAMESPACE, World

STEP: Final = 5.0
"""Seconds per step; there is at most one fault in each."""

MOST_JUMP: Final = 600.0
"""Seconds by which a clock that has jumped may be wrong."""

_FOREIGN_OWNER: Final = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "name": "stranger",
    "uid": "00000000-0000-4000-8000-000000000000",
    "controller": True,
}


async def inject_faults(world: World) -> None:
    """Inject the faults of each step, forever."""
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(STEP)
        fault = world.faults.draw(WORLD_FAULTS, "world", loop.time())
        if fault is not None:
            # At a moment that coincides with no other timer.
            loop.call_later(STEP * fault.share, _inject, world, fault)


def _inject(world: World, fault: Fault) -> None:
    if fault.kind in _MACHINES:
        manager = fault.rng.choice(world.managers)
        _MACHINES[fault.kind](world, manager, fault)
        return
    plurals, edit = _OBJECTS[fault.kind]
    found = world.stored(fault.rng.choice(plurals))
    if found:
        try:
            edit(world, fault.rng.choice(found), fault)
        except Refusal:
            return  # another client has just changed the object


# Machines


def _crash(_: World, manager: Manager, __: Fault) -> None:
    manager.crash()


def _pause(_: World, manager: Manager, fault: Fault) -> None:
    manager.pause(fault.rng.uniform(1, 60))


def _cut_off_lease(_: World, manager: Manager, fault: Fault) -> None:
    manager.connection.no_lease_until = manager.connection.now() + fault.rng.uniform(
        5, 60
    )


def _lag(_: World, manager: Manager, fault: Fault) -> None:
    rng = fault.rng
    manager.connection.lagging[rng.choice(WATCHED)] = (
        manager.connection.now() + rng.uniform(5, 400)
    )


def _old_replica(world: World, manager: Manager, fault: Fault) -> None:
    """Break the connection, and connect to a server that is behind.

    In half of the cases the manager starts anew there.
    """
    age = fault.rng.uniform(5, 120)
    now = manager.connection.now()
    version = next(
        (number for at, number in reversed(world.versions) if at < now - age), 0
    )
    manager.connection.old = OldReplica(version, now + fault.rng.uniform(5, 60))
    manager.connection.cut()
    if fault.share < 0.5:
        manager.crash()


def _restart_server(world: World, _: Manager, fault: Fault) -> None:
    """Break all connections; the watch cache is empty afterwards."""
    seconds = fault.rng.uniform(1, 30)
    forget_history(world.server)
    for manager in world.managers:
        manager.connection.down_until = manager.connection.now() + seconds
        manager.connection.cut()


def _jump(_: World, manager: Manager, fault: Fault) -> None:
    """Set the wall clock of a manager while it runs, to a time that is wrong."""
    manager.set_clock(fault.rng.uniform(-MOST_JUMP, MOST_JUMP))


def _cut_off(_: World, manager: Manager, fault: Fault) -> None:
    """Let one manager reach no API server, for longer than it may lead."""
    manager.connection.down_until = manager.connection.now() + fault.rng.uniform(
        20, 300
    )
    manager.connection.cut()


def _set_quota(world: World, _: Manager, fault: Fault) -> None:
    """Allow no more pods than exist, for a while."""
    kind = world.kind("resourcequotas")
    pods = len(world.stored("pods", NAMESPACE))
    quota = {"metadata": {"name": "quota"}, "spec": {"hard": {"pods": str(pods)}}}
    if world.find("resourcequotas", NAMESPACE, "quota") is not None:
        return
    stored = world.server.objects.create(kind, NAMESPACE, quota)
    loop = asyncio.get_running_loop()
    seconds = fault.rng.uniform(10, 300)
    loop.call_later(seconds, world.delete, "resourcequotas", stored.obj)


def _delete_namespace(world: World, _: Manager, __: Fault) -> None:
    found = world.find("namespaces", "", DELETABLE_NAMESPACE)
    if found is not None and "deletionTimestamp" not in found["metadata"]:
        world.delete("namespaces", found)


def _slow_down_creates(_: World, manager: Manager, fault: Fault) -> None:
    """Let a webhook delay creates by up to half a minute, longer than the lease."""
    rng = fault.rng
    until = manager.connection.now() + rng.uniform(30, 300)
    plural = rng.choice(("pods", "replicasets"))
    manager.connection.slow_creates[plural] = SlowCreates(rng.uniform(5, 30), until)


def _refuse_list(_: World, manager: Manager, fault: Fault) -> None:
    rng = fault.rng
    until = manager.connection.now() + rng.uniform(20, 400)
    plural = rng.choice(WATCHED)
    manager.connection.refused[plural] = until
    manager.connection.cut()


def _cut_idle_streams(_: World, manager: Manager, fault: Fault) -> None:
    manager.connection.cuts_idle_until = manager.connection.now() + fault.rng.uniform(
        60, 600
    )
    manager.connection.cut()


def _leave_half_open(_: World, manager: Manager, __: Fault) -> None:
    manager.connection.fall_silent()


_MACHINES: Final[dict[str, Callable[[World, Manager, Fault], None]]] = {
    "crash": _crash,
    "pause": _pause,
    "lease cut off": _cut_off_lease,
    "resource lags": _lag,
    "old replica": _old_replica,
    "apiserver restart": _restart_server,
    "quota": _set_quota,
    "namespace deleted": _delete_namespace,
    "slow creates": _slow_down_creates,
    "list refused": _refuse_list,
    "idle streams cut": _cut_idle_streams,
    "half-open watches": _leave_half_open,
    "clock jump": _jump,
    "apiserver unreachable": _cut_off,
}

# Objects


def _plural(obj: JSON) -> str:
    return f"{obj['kind'].lower()}s"


def _delete_pod(world: World, pod: JSON, _: Fault) -> None:
    world.delete("pods", pod)


def _delete_pod_now(world: World, pod: JSON, _: Fault) -> None:
    world.delete("pods", pod, grace=0)


def _fail(world: World, pod: JSON, _: Fault) -> None:
    if pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return  # a pod ends once

    def edit(obj: JSON) -> None:
        obj["status"] = {**obj.get("status", {}), "phase": "Failed"}

    world.change("pods", pod, edit, "status")


def _restart_pod(world: World, pod: JSON, _: Fault) -> None:
    world.restart_pod(pod)


def _edit_labels(world: World, obj: JSON, _: Fault) -> None:
    def edit(obj: JSON) -> None:
        obj["metadata"]["labels"] = {"app": "stranger"}

    world.change(_plural(obj), obj, edit)


def _remove_owner(world: World, obj: JSON, _: Fault) -> None:
    def edit(obj: JSON) -> None:
        obj["metadata"].pop("ownerReferences", None)

    world.change(_plural(obj), obj, edit)


def _replace_owner(world: World, obj: JSON, _: Fault) -> None:
    if obj["metadata"].get("finalizers") and obj["metadata"]["namespace"] != NAMESPACE:
        # As with upstream, no controller removes the finalizer of a job from a
        # pod of another owner. So the namespace would never go.
        return

    def edit(obj: JSON) -> None:
        obj["metadata"]["ownerReferences"] = [dict(_FOREIGN_OWNER)]

    world.change(_plural(obj), obj, edit)


def _edit_replicas(world: World, obj: JSON, _: Fault) -> None:
    def edit(obj: JSON) -> None:
        obj["spec"]["replicas"] += 1

    world.change("replicasets", obj, edit)


def _edit_revision(world: World, obj: JSON, fault: Fault) -> None:
    def edit(obj: JSON) -> None:
        annotations = obj["metadata"].setdefault("annotations", {})
        annotations["deployment.kubernetes.io/revision"] = str(int(fault.share * 50))

    world.change("replicasets", obj, edit)


def _annotate(world: World, obj: JSON, _: Fault) -> None:
    def edit(obj: JSON) -> None:
        annotations = obj["metadata"].setdefault("annotations", {})
        annotations["stranger.example/mark"] = "kept"

    world.change(_plural(obj), obj, edit)


def _overwrite_status(world: World, obj: JSON, _: Fault) -> None:
    def edit(obj: JSON) -> None:
        obj["status"] = {"replicas": 99}

    world.change(_plural(obj), obj, edit, "status")


_PODS: Final = ("pods",)
_REPLICA_SETS: Final = ("replicasets",)
_DEPENDENTS: Final = ("pods", "pods", "replicasets")
_OWNERS: Final = ("deployments", "replicasets")

_OBJECTS: Final[
    dict[str, tuple[tuple[str, ...], Callable[[World, JSON, Fault], None]]]
] = {
    "pod deleted": (_PODS, _delete_pod),
    "pod evicted": (_PODS, _delete_pod_now),
    "pod failed": (_PODS, _fail),
    "pod restarted": (_PODS, _restart_pod),
    "labels edited": (_DEPENDENTS, _edit_labels),
    "owner removed": (_DEPENDENTS, _remove_owner),
    "owner replaced": (_DEPENDENTS, _replace_owner),
    "replicas edited": (_REPLICA_SETS, _edit_replicas),
    "revision edited": (_REPLICA_SETS, _edit_revision),
    "annotation added": (_OWNERS, _annotate),
    "status overwritten": (_OWNERS, _overwrite_status),
}
