"""Each controller has its own client, as the config says."""

import asyncio
from dataclasses import replace

import pytest

from controller_manager.api.apps.v1 import DEPLOYMENTS, REPLICASETS
from controller_manager.options.config import RateLimit
from tests.clusters import Cluster, make_config
from tests.controllers.builders import deployment_json, replica_set_json
from tests.controllers.user import User

pytestmark = pytest.mark.looptime


async def test_one_controller_may_have_its_own_limit(cluster: Cluster) -> None:
    config = make_config()
    limits = {"replicaset-controller": RateLimit(qps=1, burst=1)}
    limited = replace(config, client=replace(config.client, controllers=limits))
    user = User(cluster)
    async with cluster.manager(limited):
        for name in ("a", "b", "c"):
            await user.create(DEPLOYMENTS, deployment_json(name, replicas=1))
        await asyncio.sleep(0.5)
        # Three at once by the one controller, one by the other.
        listed = await cluster.client.list_page(REPLICASETS)
        assert len(listed.items) == 3
        assert len(await user.pods()) == 1
        await asyncio.sleep(10)
        assert len(await user.pods()) == 3


async def test_settings_of_the_config_reach_the_client(cluster: Cluster) -> None:
    config = make_config()
    limited = replace(
        config, client=replace(config.client, limit=RateLimit(qps=1, burst=1))
    )
    user = User(cluster)
    await user.create(REPLICASETS, replica_set_json(replicas=5))
    async with cluster.manager(limited):
        await asyncio.sleep(2.5)
        assert len(await user.pods()) == 3
        await asyncio.sleep(10)
        assert len(await user.pods()) == 5
