"""Situations in clusters that concern only the collector of storage versions."""

import asyncio
from typing import Final

from tests.controllers.cluster.storageversiongarbagecollector.workload import (
    IDENTITY,
    PLURAL,
    SYSTEM,
)
from tests.simulation.environment import Environment, Scenario

_NAME: Final = "apps.deployments"


def _servers(environment: Environment) -> list[str]:
    found = environment.world.find(PLURAL, "", _NAME)
    listed = found["status"].get("storageVersions", ()) if found else ()
    return [each["apiServerID"] for each in listed]


def _hold_lease(environment: Environment, server: str) -> None:
    world = environment.world
    lease = {"metadata": {"name": server, "labels": IDENTITY}}
    world.server.objects.create(world.kind("leases"), SYSTEM, lease)


def _list_servers(environment: Environment, *servers: str) -> None:
    world = environment.world
    kind = world.kind(PLURAL)
    if world.find(PLURAL, "", _NAME) is None:
        world.server.objects.create(kind, "", {"metadata": {"name": _NAME}})
    found = world.find(PLURAL, "", _NAME)
    assert found is not None
    entries = [
        {"apiServerID": each, "encodingVersion": "v1", "decodableVersions": ["v1"]}
        for each in servers
    ]
    status = {"storageVersions": entries, "commonEncodingVersion": "v1"}
    world.change(PLURAL, found, lambda obj: obj.update(status=status), "status")


async def storage_version_of_an_unseen_server(environment: Environment) -> None:
    """No issue: the cache of leases lags while an API server starts.

    As upstream: the lease is read from the API server before anything is dropped.
    """
    await asyncio.sleep(10)
    environment.manager.connection.lagging["leases"] = environment.now + 120
    _hold_lease(environment, "apiserver-new")
    _list_servers(environment, "apiserver-new")
    await asyncio.sleep(300)
    assert _servers(environment) == ["apiserver-new"]


async def storage_version_of_a_lost_server(environment: Environment) -> None:
    """No issue: an API server of two ends, and nothing else happens."""
    for each in ("apiserver-a", "apiserver-b"):
        _hold_lease(environment, each)
    _list_servers(environment, "apiserver-a", "apiserver-b")
    await asyncio.sleep(60)
    found = environment.world.find("leases", SYSTEM, "apiserver-a")
    assert found is not None
    environment.world.delete("leases", found)
    await environment.until(lambda: _servers(environment) == ["apiserver-b"], within=60)


SCENARIOS: Final[tuple[Scenario, ...]] = (
    storage_version_of_an_unseen_server,
    storage_version_of_a_lost_server,
)
