"""Situations in clusters that concern only the time for which kubelets may cache."""

import asyncio
from functools import partial
from typing import Final

from controller_manager.api.json_objects import JSON
from tests.simulation.environment import Environment, Scenario

_ANNOTATION: Final = "node.alpha.kubernetes.io/ttl"


async def ttl_of_a_node_is_edited(environment: Environment) -> None:
    """No issue: a user edits the annotation; the controller corrects only that."""
    await asyncio.sleep(10)
    world = environment.world
    (node, *_) = world.stored("nodes")
    name = node["metadata"]["name"]

    def edit(obj: JSON) -> None:
        obj["metadata"]["annotations"] |= {_ANNOTATION: "77", "example.com/a": "kept"}

    world.change("nodes", node, edit)
    await environment.until(partial(_is_right, environment, name), within=10)


async def ttl_of_many_nodes(environment: Environment) -> None:
    """No issue: the cluster grows beyond a hundred nodes, and shrinks below ninety."""
    await asyncio.sleep(10)
    world = environment.world
    names = [f"many-{number:03}" for number in range(98)]
    for name in names:
        node = {"metadata": {"name": name}, "spec": {"unschedulable": True}}
        world.server.objects.create(world.kind("nodes"), "", node)
    await environment.until(partial(_all_have, environment, "15"), within=10)
    for name in names[:10]:
        _delete(environment, name)
    await asyncio.sleep(10)
    assert _all_have(environment, "15")
    for name in names[10:20]:
        _delete(environment, name)
    await environment.until(partial(_all_have, environment, "0"), within=10)


def _delete(environment: Environment, name: str) -> None:
    found = environment.world.find("nodes", "", name)
    assert found is not None
    environment.world.delete("nodes", found)


def _ttl(node: JSON) -> str | None:
    found: str | None = node["metadata"].get("annotations", {}).get(_ANNOTATION)
    return found


def _all_have(environment: Environment, ttl: str) -> bool:
    return {_ttl(each) for each in environment.world.stored("nodes")} == {ttl}


def _is_right(environment: Environment, name: str) -> bool:
    found = environment.world.find("nodes", "", name)
    assert found is not None
    assert found["metadata"]["annotations"]["example.com/a"] == "kept"
    return _ttl(found) == "0"


SCENARIOS: Final[tuple[Scenario, ...]] = (ttl_of_a_node_is_edited, ttl_of_many_nodes)
