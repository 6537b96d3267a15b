"""Nodes that are silent, and managers that do not see their heartbeats."""

import asyncio
from collections.abc import Iterable
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_micro_time, format_time
from tests.simulation.environment import Environment, Scenario

_LEASES: Final = "kube-node-lease"
_BOTH: Final = {
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoSchedule"),
}


async def watch_of_leases_is_silent(environment: Environment) -> None:
    """Silence the watch of leases for ten minutes; all else goes on.

    Upstream treats that as silence of all nodes.
    """
    await asyncio.sleep(30)
    environment.manager.connection.lagging["leases"] = environment.now + 600
    await asyncio.sleep(500)
    assert _ready(environment) == dict.fromkeys(("node-0", "node-1", "node-2"), "True")


async def manager_of_nodes_is_paused(environment: Environment) -> None:
    """Stop the process for five minutes; its caches are old when it goes on."""
    await asyncio.sleep(30)
    environment.manager.pause(300)
    await asyncio.sleep(400)
    assert _ready(environment) == dict.fromkeys(("node-0", "node-1", "node-2"), "True")


async def node_is_back_before_its_turn(environment: Environment) -> None:
    """Let two nodes die, of which one renews its lease again, and posts much later.

    One node is tainted in ten seconds: the second one is back before that. Upstream
    evicts its pods.
    """
    names = ("first", "second")
    for name in names:
        _register(environment, name)
    await environment.until(lambda: bool(_evicted(environment, names)), within=90)
    (dead,) = _evicted(environment, names)
    (back,) = {*names} - {dead}
    for _ in range(6):
        _renew(environment, back)
        await asyncio.sleep(10)
    assert _evicted(environment, names) == {dead}
    await environment.until(lambda: _evicted(environment, names) == {*names}, within=90)


async def node_dies_and_comes_back(environment: Environment) -> None:
    """Have a kubelet post once, renew no lease, and post again much later."""
    _register(environment, "silent")
    await asyncio.sleep(45)
    assert _ready(environment)["silent"] == "True"
    await asyncio.sleep(30)
    assert _ready(environment)["silent"] == "Unknown"
    assert _taints(environment, "silent") == _BOTH
    _post(environment, "silent")
    await asyncio.sleep(15)
    assert _ready(environment)["silent"] == "True"
    assert _taints(environment, "silent") == set()


def _node(environment: Environment, name: str) -> JSON:
    found = environment.world.find("nodes", "", name)
    assert found is not None
    return found


def _register(environment: Environment, name: str) -> None:
    """Create a node, and post that it is ready."""
    kind = environment.world.kind("nodes")
    environment.world.server.objects.create(kind, "", {"metadata": {"name": name}})
    _post(environment, name)


def _renew(environment: Environment, name: str) -> None:
    """Renew the lease of a node, as its kubelet does; make it if there is none."""
    world = environment.world
    spec = {
        "holderIdentity": name,
        "leaseDurationSeconds": 40,
        "renewTime": format_micro_time(world.clock.now()),
    }
    found = world.find("leases", _LEASES, name)
    if found is not None:
        world.change("leases", found, lambda lease: lease.update(spec=spec))
        return
    lease = {"metadata": {"name": name}, "spec": spec}
    world.server.objects.create(world.kind("leases"), _LEASES, lease)


def _post(environment: Environment, name: str) -> None:
    """Post that a node is ready, as its kubelet does."""
    now = format_time(environment.world.clock.now())
    condition = {
        "type": "Ready",
        "status": "True",
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }

    def edit(node: JSON) -> None:
        node["status"] = {**node.get("status", {}), "conditions": [condition]}

    environment.world.change("nodes", _node(environment, name), edit, "status")


def _taints(environment: Environment, name: str) -> set[tuple[str, str]]:
    taints = _node(environment, name)["spec"].get("taints") or ()
    return {(each["key"], each["effect"]) for each in taints}


def _evicted(environment: Environment, names: Iterable[str]) -> set[str]:
    """Return the nodes whose pods are evicted."""
    return {each for each in names if _taints(environment, each) >= _BOTH}


def _ready(environment: Environment) -> dict[str, str]:
    return {
        node["metadata"]["name"]: each["status"]
        for node in environment.world.stored("nodes")
        for each in node["status"]["conditions"]
        if each["type"] == "Ready"
    }


SCENARIOS: Final[tuple[Scenario, ...]] = (
    watch_of_leases_is_silent,
    manager_of_nodes_is_paused,
    node_is_back_before_its_turn,
    node_dies_and_comes_back,
)
