"""Quotas are counted on a cluster in memory, on virtual time."""

import asyncio

import pytest

from controller_manager.api.core.resources import RESOURCE_QUOTAS
from tests.controllers.scenarios import Scenario, scenarios

from .counting import Quotas, config, controller_of

pytestmark = pytest.mark.looptime


@scenarios("cluster/resourcequota")
async def test_quotas_are_counted(scenario: Scenario) -> None:
    await scenario.play(Quotas, config)


async def test_a_deleted_quota_leaves_nothing_behind(cluster: Quotas) -> None:
    cluster.add_quota({"pods": "5"})
    async with controller_of(cluster) as controller:
        await asyncio.sleep(1)
        assert list(controller._written) == ["default/q"]
        cluster.remove(RESOURCE_QUOTAS, "q")
        await asyncio.sleep(1)
        assert (controller._written, controller._stale) == ({}, set())
        assert len(controller._consistency) == 0
        cluster.add_quota({"secrets": "5"})
        await asyncio.sleep(1)
        assert cluster.used() == {"secrets": "0"}
