"""Orphans: dependents that stay when their owner is deleted."""

import asyncio
from unittest import mock

import pytest

from controller_manager.client.rest.client import (
    PropagationPolicy,
)
from tests.controllers.cluster.garbagecollector.collecting import (
    SECRETS,
    Interfering,
    User,
    collecting,
    define,
    serve_widgets,
)
from tests.controllers.custom_resources import WIDGETS, serve_versions

pytestmark = pytest.mark.looptime


async def test_orphans_keep_their_other_owners(user: User) -> None:
    """Only the deleted owner is removed."""
    one = await user.create("one")
    two = await user.create("two")
    await user.create("dependent", one, two)
    async with collecting(user.cluster):
        await asyncio.sleep(3)
        await user.delete("one", PropagationPolicy.ORPHAN)
        await asyncio.sleep(3)
        assert await user.names() == ["dependent", "two"]
        metadata = await user.metadata("dependent")
    assert metadata is not None
    assert metadata["ownerReferences"] == [two]


async def test_an_orphan_that_no_watch_has_shown_loses_its_owner_reference(
    user: User,
) -> None:
    """Otherwise it would be collected once a watch shows it."""
    owner = await user.create("owner")
    await user.create("early", owner)
    async with collecting(user.cluster) as collector:
        await asyncio.sleep(3)
        with mock.patch.object(collector.graph, "_add_to_owners"):
            await user.create("late", owner)
            await asyncio.sleep(1)
        await user.delete("owner", PropagationPolicy.ORPHAN)
        await asyncio.sleep(3)
        found = [await user.metadata(name) for name in ("early", "late", "owner")]
    assert [each and "ownerReferences" in each for each in found] == [
        False,
        False,
        None,
    ]


async def test_orphans_of_a_kind_that_is_not_synced_lose_their_owner_reference(
    user: User,
) -> None:
    """No watch has shown them, so they are listed (seed 22)."""
    owner = await user.create("owner")
    await user.create("kept", owner, resource=SECRETS)
    transport = Interfering(user.cluster.transport, silent="/secrets")
    async with collecting(user.cluster, transport):
        await user.delete("owner", PropagationPolicy.ORPHAN)
        await asyncio.sleep(60)
        assert await user.names() == []
        transport.speaks.set()
        await asyncio.sleep(600)
        kept = await user.metadata("kept", SECRETS)
        assert kept is not None
        assert "ownerReferences" not in kept


async def test_orphans_whose_references_name_another_version_are_found(
    user: User,
) -> None:
    """A kind is the same in all its versions."""
    await define(user)
    await serve_versions(user.cluster.client, "v1", "v2")
    owner = await user.create("owner", resource=WIDGETS)
    by_v1 = {**owner, "apiVersion": "example.com/v1"}
    await user.create("early", by_v1)
    async with collecting(user.cluster) as collector:
        await asyncio.sleep(3)
        node = collector.graph.nodes.get(owner["uid"])
        assert node is not None
        assert node.identity.api_version == "example.com/v2"
        with mock.patch.object(collector.graph, "_add_to_owners"):
            await user.create("late", by_v1)
            await asyncio.sleep(1)
        await user.delete("owner", PropagationPolicy.ORPHAN, WIDGETS)
        await asyncio.sleep(3)
        found = [await user.metadata(name) for name in ("early", "late")]
    assert [each and "ownerReferences" in each for each in found] == [False, False]


async def test_orphans_of_a_kind_that_is_unknown_for_a_moment_are_waited_for(
    user: User,
) -> None:
    """Otherwise they would be collected once it is known again."""
    await define(user)
    owner = await user.create("owner")
    await user.create("dependent", owner, resource=WIDGETS)
    async with collecting(user.cluster):
        await asyncio.sleep(3)
        serve_widgets(user, served=False)
        await user.delete("owner", PropagationPolicy.ORPHAN)
        await asyncio.sleep(20)
        serve_widgets(user, served=True)
        await asyncio.sleep(60)
        metadata = await user.metadata("dependent", WIDGETS)
        assert metadata is not None
        assert "ownerReferences" not in metadata
        assert await user.names() == []


async def test_a_kind_that_cannot_be_listed_delays_orphaning_for_a_while(
    user: User,
) -> None:
    """For half a minute; then dependents of other kinds are orphaned."""
    await define(user)
    stray = await user.create("stray")
    await user.create("widget", stray, resource=WIDGETS)
    owner = await user.create("owner")
    await user.create("dependent", owner)
    transport = Interfering(user.cluster.transport)
    async with collecting(user.cluster, transport):
        await asyncio.sleep(3)
        transport.broken = "/widgets"
        await user.delete("owner", PropagationPolicy.ORPHAN)
        await asyncio.sleep(20)
        assert await user.metadata("owner") is not None
        await asyncio.sleep(60)
        assert await user.names() == ["dependent", "stray"]


async def test_orphans_that_could_not_be_listed_lose_their_owner_reference_when_seen(
    user: User,
) -> None:
    """Their owner did not wait for them; still they must not be collected (seed 70)."""
    owner = await user.create("owner")
    lost = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "gone"}
    await user.create("kept", owner, resource=SECRETS)
    await user.create("lost", lost, owner, resource=SECRETS)
    transport = Interfering(user.cluster.transport, broken="/secrets")
    async with collecting(user.cluster, transport):
        await user.delete("owner", PropagationPolicy.ORPHAN)
        await asyncio.sleep(200)
        assert await user.names() == []
        transport.broken = ""
        await asyncio.sleep(600)
        assert await user.names(SECRETS) == ["kept"]
        kept = await user.metadata("kept", SECRETS)
        assert kept is not None
        assert "ownerReferences" not in kept


async def test_a_dependent_of_an_unknown_kind_of_dependents_stays(user: User) -> None:
    """Its watch was silent until its owner had been orphaned and was gone."""
    owner = await user.create("owner")
    async with collecting(user.cluster) as collector:
        await asyncio.sleep(3)
        shown: list[tuple[object, ...]] = []
        with mock.patch.object(
            collector.graph, "seen", side_effect=lambda *seen: shown.append(seen)
        ):
            await user.create("dependent", owner)
            await asyncio.sleep(1)
        await user.delete("owner", PropagationPolicy.ORPHAN)
        await asyncio.sleep(10)
        assert await user.names() == ["dependent"]
        for seen in shown:
            collector.graph.seen(*seen)  # type: ignore[arg-type]
        await asyncio.sleep(10)
        metadata = await user.metadata("dependent")
    assert metadata is not None
    assert "ownerReferences" not in metadata
