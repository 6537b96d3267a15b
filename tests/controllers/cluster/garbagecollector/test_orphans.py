"""Orphans: dependents that stay when their owner is deleted."""

import asyncio
from dataclasses import dataclass, replace
from unittest import mock

import msgspec
import pytest

from controller_manager.api.apps.v1 import STATEFUL_SETS
from controller_manager.api.core.claims import CLAIMS
from controller_manager.api.core.v1 import PODS
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import AnyResource
from controller_manager.client.rest.client import PropagationPolicy
from controller_manager.client.rest.transport import Request, Response
from tests.controllers.apps.statefulset.builders import (
    claim_template,
    stateful_set_json,
)
from tests.controllers.cluster.garbagecollector.collecting import (
    Interfering,
    User,
    collecting,
    define,
)
from tests.controllers.custom_resources import WIDGETS, serve_versions

pytestmark = pytest.mark.looptime


async def test_an_unseen_orphan_loses_its_reference(user: User) -> None:
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


async def test_references_to_another_version_are_found(user: User) -> None:
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


async def test_a_dependent_of_an_unknown_kind_of_dependents_stays(user: User) -> None:
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


NEW_PROCESS = 300.0
"""Seconds in which a new process collects all garbage."""


@dataclass
class OneByOne(Interfering):
    """Answers discovery as a server without the aggregated form."""

    async def request(self, request: Request) -> Response:
        if request.path in ("/api", "/apis"):
            headers = {**request.headers, "accept": "application/json"}
            request = replace(request, headers=headers)
        return await super().request(request)


async def store(user: User, resource: AnyResource, body: JSON) -> JSON:
    """Create an object; return a reference to it."""
    name = body["metadata"]["name"]
    text = msgspec.json.encode(
        {"apiVersion": resource.api_version, "kind": resource.kind, **body}
    )
    await user.cluster.client.create_json(replace(resource, type=dict), "default", text)
    metadata = await user.metadata(name, resource)
    assert metadata is not None
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": name,
        "uid": metadata["uid"],
    }


async def store_set(user: User) -> JSON:
    return await store(user, STATEFUL_SETS, stateful_set_json())


async def store_claim(user: User, owner: JSON) -> None:
    body = claim_template()
    body["metadata"] |= {"name": "data-web-0", "ownerReferences": [owner]}
    await store(user, CLAIMS, body)


async def store_pod(user: User, owner: JSON) -> None:
    body = {
        "metadata": {"name": "web-0", "ownerReferences": [owner]},
        "spec": {"containers": [{"name": "app", "image": "app"}]},
    }
    await store(user, PODS, body)


async def kept(user: User, resource: AnyResource, name: str) -> bool:
    """Start a new process; tell whether an object is then there, without owners."""
    async with collecting(user.cluster):
        await asyncio.sleep(NEW_PROCESS)
    metadata = await user.metadata(name, resource)
    return metadata is not None and "ownerReferences" not in metadata


async def test_an_unseen_claim_survives_its_set_and_the_process(user: User) -> None:
    """No claim was known as a dependent of a set, so none was listed (seed 7236)."""
    owner = await store_set(user)
    async with collecting(user.cluster) as collector:
        await asyncio.sleep(3)
        collector.graph.seen = lambda *_: None  # type: ignore[method-assign]
        await store_claim(user, owner)
        await asyncio.sleep(1)
        del collector.graph.seen
        await user.delete("web", PropagationPolicy.ORPHAN, STATEFUL_SETS)
        await asyncio.sleep(3)
        assert await user.names(STATEFUL_SETS) == []
    assert await kept(user, CLAIMS, "data-web-0")


async def test_a_group_that_is_not_discovered_yet_keeps_an_owner(user: User) -> None:
    """Its dependents are then unknown, so the finalizer stays (seed 1)."""
    owner = await store_set(user)
    await store_pod(user, owner)
    await store_claim(user, owner)
    transport = OneByOne(user.cluster.transport, broken="/api/v1")
    async with collecting(user.cluster, transport):
        await asyncio.sleep(40)
        await user.delete("web", PropagationPolicy.ORPHAN, STATEFUL_SETS)
        await asyncio.sleep(200)
        assert await user.names(STATEFUL_SETS) == ["web"]
        transport.broken = ""
        await asyncio.sleep(300)
        assert await user.names(STATEFUL_SETS) == []
    assert await kept(user, PODS, "web-0")
    assert await kept(user, CLAIMS, "data-web-0")


async def test_a_broken_group_delays_others_for_half_a_minute(user: User) -> None:
    """They wait, as it may have dependents of them; but not for ever."""
    await user.create("owner")
    transport = OneByOne(user.cluster.transport, broken="/apis/apps/v1")
    async with collecting(user.cluster, transport):
        await asyncio.sleep(40)
        await user.delete("owner", PropagationPolicy.ORPHAN)
        await asyncio.sleep(20)
        assert await user.names() == ["owner"]
        await asyncio.sleep(40)
        assert await user.names() == []


async def test_usual_dependents_are_listed_in_pages(user: User) -> None:
    """Of five hundred objects each, as a namespace may have 100,000."""
    owner = await store_set(user)
    await store_claim(user, owner)
    transport = Interfering(user.cluster.transport)
    async with collecting(user.cluster, transport):
        await asyncio.sleep(3)
        transport.requests.clear()
        await user.delete("web", PropagationPolicy.ORPHAN, STATEFUL_SETS)
        await asyncio.sleep(3)
    lists = [
        (each.path, dict(each.query))
        for each in transport.requests
        if each.method == "GET" and "limit" in dict(each.query)
    ]
    assert lists == [
        ("/api/v1/namespaces/default/pods", {"limit": "500"}),
        ("/apis/apps/v1/namespaces/default/controllerrevisions", {"limit": "500"}),
        ("/api/v1/namespaces/default/persistentvolumeclaims", {"limit": "500"}),
    ]
