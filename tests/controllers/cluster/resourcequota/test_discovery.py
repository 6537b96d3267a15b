"""Resources that come and go, or cannot be listed; claims to devices."""

import asyncio

import pytest

from controller_manager.api.core.secrets import SECRETS
from controller_manager.client.builder import Connections
from tests.clusters import make_config, run_manager
from tests.controllers.custom_resources import WIDGETS, serve_versions

from .counting import Failing, Quotas, Watching, controller_of, counting

pytestmark = pytest.mark.looptime


def _stop_serving(cluster: Quotas) -> None:
    kinds = cluster.server.catalogue
    found = kinds.find("example.com", "v1", "widgets")
    assert found is not None
    kinds.remove(found)


async def test_a_resource_served_no_more_is_not_watched(cluster: Quotas) -> None:
    cluster.add_quota({"count/widgets.example.com": "3"})
    await cluster.define()
    cluster.put(WIDGETS, "a")
    async with controller_of(cluster) as controller:
        await asyncio.sleep(1)
        assert ("example.com", "widgets") in controller._monitors._monitors
        _stop_serving(cluster)
        await asyncio.sleep(40)
        assert ("example.com", "widgets") not in controller._monitors._monitors
        await asyncio.sleep(300)
        assert cluster.used() == {"count/widgets.example.com": "1"}


async def test_watches_survive_an_empty_discovery(cluster: Quotas) -> None:
    cluster.add_quota({"secrets": "5"})
    transport = Failing(cluster.transport)
    async with counting(cluster, transport):
        await asyncio.sleep(1)
        transport.empty = True
        await asyncio.sleep(100)
        cluster.put(SECRETS, "s")
        assert cluster.used() == {"secrets": "1"}
        cluster.remove(SECRETS, "s")
        await asyncio.sleep(0.2)
        assert cluster.used() == {"secrets": "0"}


async def test_nothing_is_watched_twice(cluster: Quotas) -> None:
    transport = Watching(cluster.transport)
    settings = make_config(controllers=("resourcequota", "garbagecollector"))
    await cluster.define()
    async with cluster.manager(settings, transport):
        await asyncio.sleep(5)
        assert "/apis/example.com/v1/widgets" in transport.watched
        assert len(transport.watched) == len(set(transport.watched))
        _stop_serving(cluster)  # the garbage collector waits a minute longer
        await asyncio.sleep(200)


async def test_the_collectors_version_is_counted(cluster: Quotas) -> None:
    cluster.add_quota({"count/widgets.example.com": "3"})
    settings = make_config(controllers=("resourcequota", "garbagecollector"))
    await cluster.define()
    connections = Connections(cluster.transport)
    async with run_manager(
        connections, cluster.clock, cluster.rng, settings
    ) as manager:
        await asyncio.sleep(5)
        cluster.put(WIDGETS, "a")
        await serve_versions(cluster.client, "v1", "v2")
        await asyncio.sleep(200)
        watched = [
            each.resource.api_version
            for each in manager.informers.all()
            if each.resource.kind == "Widget"
        ]
        assert watched == ["example.com/v2"]
        cluster.put(WIDGETS, "b")
        await asyncio.sleep(5)
        assert cluster.used() == {"count/widgets.example.com": "2"}
