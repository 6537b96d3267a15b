"""Pods on a tainted node, and managers that do not see that the taint is removed."""

import asyncio
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.registry.core.nodes import KIND as NODE
from controller_manager.devcluster.registry.core.pods import KIND as POD
from tests.controllers.nodes.pods import remaining_pods
from tests.simulation.environment import Environment, Scenario

_TAINT: Final[JSON] = {"key": "x", "effect": "NoExecute"}


async def watch_of_nodes_is_silent(environment: Environment) -> None:
    """Remove the taint while the watch of nodes is silent: the pod stays.

    Upstream evicts it.
    """
    _create(environment, {"p": 60})
    await asyncio.sleep(10)
    _taint(environment, _TAINT)
    await asyncio.sleep(30)
    environment.manager.connection.lagging["nodes"] = environment.now + 120
    _taint(environment)
    await asyncio.sleep(300)
    assert remaining_pods(environment) == ["p"]


async def process_is_paused_while_the_taint_goes(environment: Environment) -> None:
    """Stop the process until the time is over; the taint is removed by then."""
    _create(environment, {"p": 60})
    await asyncio.sleep(10)
    _taint(environment, _TAINT)
    await asyncio.sleep(30)
    environment.manager.pause(100)
    await asyncio.sleep(50)
    _taint(environment)
    await asyncio.sleep(300)
    assert remaining_pods(environment) == ["p"]


async def manager_restarts_while_pods_wait(environment: Environment) -> None:
    """No pod is evicted before its time, and none that tolerates the taint for ever."""
    _create(environment, {"now": 0, "minute": 60, "ever": None})
    await asyncio.sleep(100)  # the node has been found silent, and is left alone
    _taint(environment, _TAINT)
    await asyncio.sleep(20)
    assert remaining_pods(environment) == ["ever", "minute"]
    environment.manager.crash()
    await asyncio.sleep(39)
    assert remaining_pods(environment) == ["ever", "minute"]
    await asyncio.sleep(120)
    assert remaining_pods(environment) == ["ever"]


def _create(environment: Environment, seconds: dict[str, int | None]) -> None:
    """Create a node, and pods there that tolerate the taint for so many seconds."""
    objects = environment.world.server.objects
    own: JSON = {"key": "own", "effect": "NoSchedule"}
    node = {"metadata": {"name": "dedicated"}, "spec": {"taints": [own]}}
    objects.create(NODE, "", node)
    for name, each in seconds.items():
        toleration: JSON = {"key": "x", "operator": "Exists", "effect": "NoExecute"}
        if each is not None:
            toleration["tolerationSeconds"] = each
        # No kubelet renews the lease of this node.
        unreachable = {"key": "node.kubernetes.io/unreachable", "operator": "Exists"}
        spec = {
            "nodeName": "dedicated",
            "containers": [{"name": "c", "image": "app:v1"}],
            "tolerations": [toleration, unreachable],
        }
        pod = {"metadata": {"name": name}, "spec": spec}
        objects.create(POD, "default", pod)


def _taint(environment: Environment, *taints: JSON) -> None:
    node = environment.world.find("nodes", "", "dedicated")
    assert node is not None
    environment.world.change(
        "nodes", node, lambda obj: obj["spec"].update(taints=list(taints))
    )


SCENARIOS: Final[tuple[Scenario, ...]] = (
    watch_of_nodes_is_silent,
    process_is_paused_while_the_taint_goes,
    manager_restarts_while_pods_wait,
)
