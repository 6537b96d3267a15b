"""Nodes that are silent, and managers that cannot hear them."""

import asyncio
from typing import Any, Final

from controller_manager.api.times import format_time
from tests.simulation.environment import Environment, Scenario

JSON = dict[str, Any]

_BOTH: Final = {
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoSchedule"),
}


async def watch_of_leases_is_silent(environment: Environment) -> None:
    """Silence the watch of leases for ten minutes; all else goes on.

    Upstream takes that for the silence of all nodes.
    """
    await asyncio.sleep(30)
    environment.manager.connection.lagging["leases"] = environment.now + 600
    await asyncio.sleep(500)
    assert _ready(environment) == dict.fromkeys(("node-0", "node-1", "node-2"), "True")


async def manager_of_nodes_is_paused(environment: Environment) -> None:
    """Stop the process for five minutes; it knows nothing when it goes on."""
    await asyncio.sleep(30)
    environment.manager.pause(300)
    await asyncio.sleep(400)
    assert _ready(environment) == dict.fromkeys(("node-0", "node-1", "node-2"), "True")


async def node_dies_and_comes_back(environment: Environment) -> None:
    """Have a kubelet post once, renew no lease, and post again much later."""
    kind = environment.world.kind("nodes")
    node = {"metadata": {"name": "silent"}}
    environment.world.server.objects.create(kind, "", node)
    _post(environment)
    await asyncio.sleep(45)
    assert _ready(environment)["silent"] == "True"
    await asyncio.sleep(30)
    assert _ready(environment)["silent"] == "Unknown"
    assert _taints(environment) == _BOTH
    _post(environment)
    await asyncio.sleep(15)
    assert _ready(environment)["silent"] == "True"
    assert _taints(environment) == set()


def _node(environment: Environment) -> JSON:
    found = environment.world.find("nodes", "", "silent")
    assert found is not None
    return found


def _post(environment: Environment) -> None:
    """Post that the silent node is ready, as its kubelet does."""
    now = format_time(environment.world.clock.now())
    condition = {
        "type": "Ready",
        "status": "True",
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }

    def edit(node: JSON) -> None:
        node["status"] = {**node.get("status", {}), "conditions": [condition]}

    environment.world.change("nodes", _node(environment), edit, "status")


def _taints(environment: Environment) -> set[tuple[str, str]]:
    taints = _node(environment)["spec"].get("taints") or ()
    return {(each["key"], each["effect"]) for each in taints}


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
    node_dies_and_comes_back,
)
