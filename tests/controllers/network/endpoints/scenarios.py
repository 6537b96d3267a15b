"""Situations in clusters that concern only Endpoints of services."""

import asyncio
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.controllers.network.endpoints.controller import EDIT_DELAY
from tests.controllers.network.endpoints.model import offers_of
from tests.controllers.network.endpoints.workload import endpoints_json, service_json
from tests.simulation.environment import Environment, Scenario
from tests.simulation.world import NAMESPACE

_MANAGED: Final = {"endpoints.kubernetes.io/managed-by": "endpoint-controller"}


def _create(environment: Environment, plural: str, obj: JSON) -> None:
    kind = environment.world.kind(plural)
    environment.world.server.objects.create(kind, NAMESPACE, obj)


def _addresses(environment: Environment, name: str = "web") -> int:
    found = environment.world.find("endpoints", NAMESPACE, name)
    return 0 if found is None else len(offers_of(found))


async def endpoints_are_emptied(environment: Environment) -> None:
    """No upstream issue, recorded: a user empties Endpoints.

    Upstream does not watch that, and traffic stops until a pod changes. Here they are
    corrected.
    """
    environment.create(replicas=2)
    _create(environment, "services", service_json("web"))
    await environment.until(lambda: _addresses(environment) == 2, within=60)
    endpoints = environment.world.find("endpoints", NAMESPACE, "web")
    assert endpoints is not None
    environment.world.change(
        "endpoints", endpoints, lambda obj: obj.pop("subsets", None)
    )
    await environment.until(
        lambda: _addresses(environment) == 2, within=EDIT_DELAY + 10
    )


async def endpoints_are_left_over(environment: Environment) -> None:
    """kubernetes#6877: a service is deleted while no manager runs.

    As upstream: Endpoints that are left are deleted at the start. Those that a user
    wrote before their service stay, if the manager runs.
    """
    await asyncio.sleep(10)
    environment.manager.crash()
    left = endpoints_json("left")
    left["metadata"]["labels"] = _MANAGED
    _create(environment, "endpoints", left)
    await asyncio.sleep(60)
    assert _addresses(environment, "left") == 0
    _create(environment, "endpoints", endpoints_json("early"))
    await asyncio.sleep(2 * EDIT_DELAY)
    assert _addresses(environment, "early") == 1


async def service_is_deleted_while_its_deletion_is_not_seen(
    environment: Environment,
) -> None:
    """No upstream issue: the cache of services lags while a service is deleted.

    The API server deletes its Endpoints, too. They are created again because the cache
    still shows the service, and deleted when the cache shows its deletion.
    """
    environment.create(replicas=2)
    _create(environment, "services", service_json("web"))
    await environment.until(lambda: _addresses(environment) == 2, within=60)
    environment.manager.connection.lagging["services"] = environment.now + 60
    service = environment.world.find("services", NAMESPACE, "web")
    assert service is not None
    environment.world.delete("services", service)
    await asyncio.sleep(120)
    assert environment.world.find("endpoints", NAMESPACE, "web") is None


SCENARIOS: Final[tuple[Scenario, ...]] = (
    endpoints_are_emptied,
    endpoints_are_left_over,
    service_is_deleted_while_its_deletion_is_not_seen,
)
