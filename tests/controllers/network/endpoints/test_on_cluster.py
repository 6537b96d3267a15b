"""Endpoints follow services and pods, in memory and on virtual time."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from controller_manager.controllers.network.endpoints import EndpointsOptions
from controller_manager.options.config import Config
from tests.clusters import make_config
from tests.controllers.network.backends import Services
from tests.controllers.scenarios import Scenario, scenarios
from tests.runtime.silence import SilentWatches

pytestmark = pytest.mark.looptime


def config(*, use_service_account_credentials: bool = False, **options: Any) -> Config:
    made = make_config(
        controllers=("endpoint",),
        use_service_account_credentials=use_service_account_credentials,
    )
    return replace(made, controllers={EndpointsOptions: EndpointsOptions(**options)})


@scenarios("network/endpoints")
async def test_endpoints_follow_services_and_pods(scenario: Scenario) -> None:
    await scenario.play(Services, config)


async def test_leftovers_of_an_unseen_service_stay(cluster: Services) -> None:
    """The cache of services is older than that of Endpoints at the start."""
    watches = SilentWatches(cluster.transport)
    watches.silence("services")
    async with asyncio.TaskGroup() as group:
        started = asyncio.Event()
        done = asyncio.Event()

        async def run() -> None:
            async with cluster.manager(config(), transport=watches):
                started.set()
                await done.wait()

        group.create_task(run())
        cluster.add_endpoints("web", "192.168.0.1")
        await asyncio.sleep(1)
        watches.speak("services")
        watches.silence("services")
        cluster.add_service(selector=None)
        await asyncio.sleep(5)
        assert cluster.ready() == ["192.168.0.1"]
        watches.speak("services")
        done.set()
