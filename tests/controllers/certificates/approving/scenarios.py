"""Situations in clusters that concern only the approval of requests."""

import asyncio
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.security import User
from tests.controllers.certificates.workload import NODE, PLURAL, request_named
from tests.simulation.environment import Environment, Scenario


def _conditions(environment: Environment, name: str) -> list[JSON]:
    found = environment.world.find(PLURAL, "", name)
    assert found is not None
    conditions: list[JSON] = found["status"].get("conditions", [])
    return conditions


async def a_stranger_asks_for_a_nodes_certificate(environment: Environment) -> None:
    """No issue: only the node is approved; RBAC allows no other user."""
    world = environment.world
    world.server.tokens.add("node", NODE)
    kind = world.kind(PLURAL)
    for name, user in (("kubelet", NODE), ("stolen", User("stranger"))):
        request = request_named("kubelet")
        request["metadata"]["name"] = name
        world.server.objects.create(kind, "", request, user=user)
    client = request_named("jane")
    world.server.objects.create(kind, "", client, user=NODE)
    await environment.until(
        lambda: bool(_conditions(environment, "kubelet")), within=60
    )
    await asyncio.sleep(600)
    assert _conditions(environment, "stolen") == []
    assert _conditions(environment, "jane") == []


SCENARIOS: Final[tuple[Scenario, ...]] = (a_stranger_asks_for_a_nodes_certificate,)
