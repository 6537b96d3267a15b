"""The namespaces of the system come back."""

import asyncio

import pytest

from controller_manager.api.core.v1 import NAMESPACES as RESOURCE
from controller_manager.client.rest.errors import NotFound
from controller_manager.devcluster.controlplane import (
    NAMESPACES,
    add_system_namespaces,
    keep_system_namespaces,
)
from tests.clusters import Cluster, make_config

pytestmark = pytest.mark.looptime


async def test_a_namespace_of_the_system_that_is_deleted_comes_back(
    cluster: Cluster,
) -> None:
    """Within a minute, once it is empty; those that exist stay as they are."""
    objects = cluster.server.objects
    add_system_namespaces(objects)
    page = await cluster.client.list_page(RESOURCE)
    before = {each.metadata.name: each.metadata.uid for each in page.items}
    assert before.keys() == set(NAMESPACES)
    keeper = asyncio.create_task(keep_system_namespaces(objects))
    async with cluster.manager(make_config(controllers=("namespace",))):
        await cluster.client.delete(RESOURCE, "", "kube-node-lease")
        await asyncio.sleep(30)
        with pytest.raises(NotFound):
            await cluster.client.get(RESOURCE, "", "kube-node-lease")
        await asyncio.sleep(31)
        page = await cluster.client.list_page(RESOURCE)
    keeper.cancel()
    await asyncio.gather(keeper, return_exceptions=True)
    after = {each.metadata.name: each.metadata.uid for each in page.items}
    assert after.pop("kube-node-lease") != before.pop("kube-node-lease")
    assert after == before
