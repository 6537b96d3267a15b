"""Kinds that come, go, change their versions, or cannot be listed."""

import asyncio
from dataclasses import replace

import pytest

from controller_manager.client.rest.client import PropagationPolicy
from controller_manager.controllers.cluster.garbagecollector.controller import (
    GarbageCollector,
)
from controller_manager.runtime.outcome import Outcome
from tests.controllers.cluster.garbagecollector.collecting import (
    Interfering,
    User,
    blocking,
    collecting,
    define,
)
from tests.controllers.custom_resources import DEFINITIONS, WIDGETS, serve_versions

pytestmark = pytest.mark.looptime


async def test_a_resource_served_no_more_is_watched_no_more(user: User) -> None:
    """Its objects may still exist, so their dependents stay."""
    await define(user)
    owner = await user.create("owner", resource=WIDGETS)
    await user.create("dependent", owner)
    async with collecting(user.cluster) as collector:
        await asyncio.sleep(3)
        monitors = collector._monitors._monitors
        assert ("example.com", "widgets") in monitors
        kinds = user.cluster.server.catalogue
        found = kinds.find("example.com", "v1", "widgets")
        assert found is not None
        kinds.remove(found)
        await asyncio.sleep(60)
        assert ("example.com", "widgets") in monitors  # it may come back
        await asyncio.sleep(60)
        assert ("example.com", "widgets") not in monitors
        assert await user.names() == ["dependent"]


async def test_workers_start_when_the_graph_is_synced(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[float] = []
    attempt = GarbageCollector.attempt_to_delete

    async def counted(self: GarbageCollector, uid: str) -> Outcome:
        looks.append(asyncio.get_running_loop().time())
        return await attempt(self, uid)

    monkeypatch.setattr(GarbageCollector, "attempt_to_delete", counted)
    for number in range(20):
        lost = {"apiVersion": "v1", "kind": "ConfigMap", "name": f"x{number}"}
        await user.create(f"lost-{number}", {**lost, "uid": f"gone-{number}"})
    transport = Interfering(user.cluster.transport, broken="/secrets")
    async with collecting(user.cluster, transport) as collector:
        await asyncio.sleep(29)
        assert (len(looks), len(collector.deletions)) == (0, 20)
        await asyncio.sleep(5)
        assert await user.names() == []
    assert min(looks) == pytest.approx(30, abs=2)


async def test_no_state_is_kept_of_an_unknown_kind(user: User) -> None:
    stranger = {"apiVersion": "example.com/v1", "kind": "Widget", "name": "w"}
    async with collecting(user.cluster) as collector:
        for number in range(10):
            await user.create(f"d{number}", {**stranger, "uid": f"gone-{number}"})
        await asyncio.sleep(40)
        assert len(collector._unknown) >= 10
        for number in range(10):
            await user.delete(f"d{number}")
        await asyncio.sleep(1)
        assert collector._unknown == {}
        invented = [kind for kind in collector.graph._owned if kind[1] == "Widget"]
        assert invented == []


async def test_no_state_is_kept_of_a_kind_served_no_more(user: User) -> None:
    async with collecting(user.cluster) as collector:
        await define(user)
        await asyncio.sleep(5)
        one = await user.create("one", resource=WIDGETS)
        await user.create("two", one, resource=WIDGETS)
        await asyncio.sleep(5)
        widget = ("example.com", "Widget")
        assert widget in collector.graph._owned
        await user.cluster.client.delete(DEFINITIONS, "", "widgets.example.com")
        await asyncio.sleep(300)
        assert widget not in collector.graph._owned


def versions_of_widgets(collector: GarbageCollector) -> set[str]:
    return {
        node.identity.api_version
        for node in collector.graph.nodes.values()
        if node.identity.kind == "Widget"
    }


async def test_a_version_preferred_for_a_minute_is_watched(user: User) -> None:
    await define(user)
    await user.create("held", resource=WIDGETS)
    async with collecting(user.cluster) as collector:
        await asyncio.sleep(3)
        await serve_versions(user.cluster.client, "v1", "v2")
        await asyncio.sleep(50)
        await serve_versions(user.cluster.client, "v1")
        await asyncio.sleep(50)
        await serve_versions(user.cluster.client, "v1", "v2")
        await asyncio.sleep(50)
        assert versions_of_widgets(collector) == {"example.com/v1"}
        await asyncio.sleep(60)
        assert versions_of_widgets(collector) == {"example.com/v2"}


async def test_a_new_preferred_version_changes_nothing(user: User) -> None:
    await define(user)
    owner = await user.create("owner")
    await user.create(
        "held", blocking(owner), resource=WIDGETS, finalizers=["example.com/hold"]
    )
    async with collecting(user.cluster) as collector:
        await asyncio.sleep(3)
        await user.delete("owner", PropagationPolicy.FOREGROUND)
        await serve_versions(user.cluster.client, "v1", "v2")
        await asyncio.sleep(130)
        assert await user.names() == ["owner"]
        await serve_versions(user.cluster.client, "v2")
        await asyncio.sleep(130)
        assert await user.names() == ["owner"]
        assert versions_of_widgets(collector) == {"example.com/v2"}
        latest = replace(WIDGETS, version="v2")
        user.cluster.edit(latest, "held", metadata={"finalizers": None})
        await asyncio.sleep(5)
        assert await user.names() == []


async def test_an_empty_discovery_is_ignored(user: User) -> None:
    await user.create("known")
    transport = Interfering(user.cluster.transport)
    async with collecting(user.cluster, transport) as collector:
        await asyncio.sleep(3)
        known = len(collector.graph.nodes)
        transport.empty = True
        await asyncio.sleep(300)
        assert len(collector.graph.nodes) == known
