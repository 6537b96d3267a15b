"""Situations in clusters that concern only the signing of requests."""

import asyncio
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.security import User
from tests.controllers.certificates.authorities import condition
from tests.controllers.certificates.workload import PLURAL, request_named
from tests.simulation.environment import Environment, Scenario

_NAMES: Final = ("jane", "server", "wrong")


def _create(environment: Environment, name: str) -> None:
    kind = environment.world.kind(PLURAL)
    objects = environment.world.server.objects
    objects.create(kind, "", request_named(name), user=User("jane"))


def _status(environment: Environment, name: str) -> JSON:
    found = environment.world.find(PLURAL, "", name)
    assert found is not None
    status: JSON = found["status"]
    return status


def _decide(environment: Environment, name: str, *kinds: str) -> None:
    found = environment.world.find(PLURAL, "", name)
    assert found is not None

    def decide(changed: JSON) -> None:
        changed["status"]["conditions"] = [condition(each) for each in kinds]

    environment.world.change(PLURAL, found, decide, "approval")


async def requests_are_decided(environment: Environment) -> None:
    """No issue: approved requests are signed or fail; the others do not change."""
    for name in _NAMES:
        _create(environment, name)
    await asyncio.sleep(60)
    assert all("certificate" not in _status(environment, each) for each in _NAMES)
    _decide(environment, "jane", "Approved")
    _decide(environment, "server", "Denied")
    _decide(environment, "wrong", "Approved")
    await environment.until(
        lambda: (
            "certificate" in _status(environment, "jane")
            and len(_status(environment, "wrong")["conditions"]) > 1
        ),
        within=60,
    )
    await asyncio.sleep(600)
    assert "certificate" not in _status(environment, "server")
    assert "certificate" not in _status(environment, "wrong")


SCENARIOS: Final[tuple[Scenario, ...]] = (requests_are_decided,)
