"""Situations in clusters that concern only pods without a kubelet."""

import asyncio
from typing import Final

from tests.simulation.environment import Environment, Scenario
from tests.simulation.world import NAMESPACE

_NODE: Final = "passing"
_POD: Final = "left"


async def pod_of_a_node_that_is_gone(environment: Environment) -> None:
    """No issue: the pod is deleted when its node has been gone for forty seconds."""
    await asyncio.sleep(10)
    _create_node(environment)
    _create_pod(environment)
    await asyncio.sleep(120)
    assert _stands(environment)
    _delete_node(environment)
    await asyncio.sleep(35)
    assert _stands(environment)
    await environment.until(lambda: not _stands(environment), within=90)


async def node_is_back_within_its_quarantine(environment: Environment) -> None:
    """No issue: a user deletes a node, and its kubelet registers it again."""
    await asyncio.sleep(10)
    _create_node(environment)
    _create_pod(environment)
    await asyncio.sleep(10)
    _delete_node(environment)
    await asyncio.sleep(30)
    _create_node(environment)
    await asyncio.sleep(120)
    assert _stands(environment)


async def node_that_the_cache_lacks(environment: Environment) -> None:
    """No issue: the watch of nodes is silent, and the pod of a new node is there.

    As upstream: the node is read from the API server before its pods are deleted.
    """
    await asyncio.sleep(10)
    environment.manager.connection.lagging["nodes"] = environment.now + 150
    _create_node(environment)
    _create_pod(environment)
    await asyncio.sleep(200)
    assert _stands(environment)


def _create_node(environment: Environment) -> None:
    world = environment.world
    node = {"metadata": {"name": _NODE}, "spec": {"unschedulable": True}}
    world.server.objects.create(world.kind("nodes"), "", node)


def _delete_node(environment: Environment) -> None:
    found = environment.world.find("nodes", "", _NODE)
    assert found is not None
    environment.world.delete("nodes", found)


def _create_pod(environment: Environment) -> None:
    """Create a pod on the node, which tolerates every taint of it."""
    world = environment.world
    spec = {
        "nodeName": _NODE,
        "containers": [{"name": "c", "image": "i"}],
        "tolerations": [{"operator": "Exists"}],
    }
    pod = {"metadata": {"name": _POD}, "spec": spec}
    world.server.objects.create(world.kind("pods"), NAMESPACE, pod)


def _stands(environment: Environment) -> bool:
    return environment.world.find("pods", NAMESPACE, _POD) is not None


SCENARIOS: Final[tuple[Scenario, ...]] = (
    pod_of_a_node_that_is_gone,
    node_is_back_within_its_quarantine,
    node_that_the_cache_lacks,
)
