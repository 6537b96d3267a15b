"""Orphans that no watch has shown: a process that knows nothing of them follows."""

import asyncio
from dataclasses import dataclass, replace

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
)

pytestmark = pytest.mark.looptime

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


async def test_a_claim_that_no_watch_has_shown_survives_its_set_and_the_process(
    user: User,
) -> None:
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


async def test_an_owner_waits_for_the_list_of_its_usual_dependents(user: User) -> None:
    """A process that ends meanwhile forgets nothing: the finalizer is still there."""
    owner = await store_set(user)
    await store_claim(user, owner)
    transport = Interfering(user.cluster.transport, broken="/persistentvolumeclaims")
    async with collecting(user.cluster, transport):
        await user.delete("web", PropagationPolicy.ORPHAN, STATEFUL_SETS)
        await asyncio.sleep(600)
        assert await user.names(STATEFUL_SETS) == ["web"]
    assert await kept(user, CLAIMS, "data-web-0")
    assert await user.names(STATEFUL_SETS) == []


async def test_a_broken_group_delays_owners_of_other_kinds_for_half_a_minute(
    user: User,
) -> None:
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


async def test_usual_dependents_are_listed_in_pages_of_their_namespace(
    user: User,
) -> None:
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
