"""Every namespace has its default account."""

import asyncio

import pytest

from controller_manager.api.core.v1 import NAMESPACES, SERVICE_ACCOUNTS
from controller_manager.client.builder import Connections
from tests.clusters import make_config, run_manager
from tests.controllers.hands import Hands

pytestmark = pytest.mark.looptime

CONFIG = make_config(controllers=("serviceaccount-controller",))


async def test_every_active_namespace_has_an_account(cluster: Hands) -> None:
    cluster.add_namespace("ending")
    cluster.remove(NAMESPACES, "ending")
    async with cluster.manager(CONFIG) as recording:
        await asyncio.sleep(1)
        cluster.add_namespace("late")
        await asyncio.sleep(1)
        accounts = (await cluster.client.list_page(SERVICE_ACCOUNTS)).items
    namespaces = ["default", "kube-system", "late"]
    assert [(each.metadata.namespace, each.metadata.name) for each in accounts] == [
        (namespace, "default") for namespace in namespaces
    ]
    assert [each.path for each in recording.writes if "/ending/" in each.path] == []


async def test_a_deleted_default_account_comes_back(cluster: Hands) -> None:
    async with cluster.manager(CONFIG):
        await asyncio.sleep(1)
        first = await cluster.client.get(SERVICE_ACCOUNTS, "default", "default")
        cluster.remove(SERVICE_ACCOUNTS, "default")
        await asyncio.sleep(1)
        second = await cluster.client.get(SERVICE_ACCOUNTS, "default", "default")
    assert second.metadata.uid != first.metadata.uid


async def test_only_default_accounts_are_watched(cluster: Hands) -> None:
    for number in range(50):
        cluster.add("ServiceAccount", f"other-{number}")
    connections = Connections(cluster.transport)
    async with run_manager(connections, cluster.clock, cluster.rng, CONFIG) as manager:
        await asyncio.sleep(1)
        cached = {
            each.resource.plural: len(each.store) for each in manager.informers.all()
        }
    assert cached == {"namespaces": 2, "serviceaccounts": 2}
