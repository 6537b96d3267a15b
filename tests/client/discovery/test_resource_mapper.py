"""Kinds are found by discovery, which is cached."""

import asyncio
from dataclasses import dataclass, field

import pytest

from controller_manager.client.discovery.resource_mapper import (
    RETRY_INTERVAL,
    KindNotServed,
    ResourceMapper,
)
from controller_manager.client.discovery.resources import ServedResource
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.errors import TransportError
from controller_manager.client.rest.transport import Request, Response
from tests.clusters import Cluster
from tests.controllers.custom_resources import DEFINITIONS, definition
from tests.controllers.user import User
from tests.streams import PassedTransport

pytestmark = pytest.mark.looptime

_READ_ALL = ["/api", "/apis"]


@dataclass
class _Watched(PassedTransport):
    paths: list[str] = field(default_factory=list)
    broken: bool = False

    async def request(self, request: Request) -> Response:
        self.paths.append(request.path)
        await asyncio.sleep(0.1)
        if self.broken:
            msg = "no answer"
            raise TransportError(msg)
        return await self.inner.request(request)


@pytest.fixture(name="transport")
def make_transport(cluster: Cluster) -> _Watched:
    return _Watched(cluster.transport)


@pytest.fixture(name="mapper")
def make_mapper(cluster: Cluster, transport: _Watched) -> ResourceMapper:
    return ResourceMapper(Client(transport, cluster.clock), cluster.clock)


def _name(found: ServedResource) -> tuple[str, str, str]:
    return found.group_resource, found.version, found.kind


async def test_many_kinds_cost_one_discovery(
    mapper: ResourceMapper, transport: _Watched
) -> None:
    """Those who ask at the same time share it."""
    found = await asyncio.gather(
        mapper.resource_of("apps", "Deployment", "v1"),
        mapper.resource_of("", "Pod", "v1"),
    )
    assert [_name(each) for each in found] == [
        ("deployments.apps", "v1", "Deployment"),
        ("pods", "v1", "Pod"),
    ]
    again = await mapper.resource_of("apps", "StatefulSet")
    assert _name(again) == ("statefulsets.apps", "v1", "StatefulSet")
    assert sorted(transport.paths) == _READ_ALL


async def test_a_version_that_is_not_served_gives_way_to_the_preferred_one(
    mapper: ResourceMapper,
) -> None:
    """An owner reference may name a version of long ago."""
    found = await mapper.resource_of("apps", "ReplicaSet", "v1beta2")
    assert _name(found) == ("replicasets.apps", "v1", "ReplicaSet")


async def test_misses_discover_at_a_limited_rate(
    mapper: ResourceMapper, transport: _Watched
) -> None:
    with pytest.raises(KindNotServed) as without_version:
        await mapper.resource_of("example.com", "Widget")
    with pytest.raises(KindNotServed) as with_version:
        await mapper.resource_of("example.com", "Widget", "v1")
    assert [str(each.value) for each in (without_version, with_version)] == [
        'no matches for kind "Widget" in group "example.com"',
        'no matches for kind "Widget" in version "example.com/v1"',
    ]
    assert sorted(transport.paths) == _READ_ALL
    await asyncio.sleep(RETRY_INTERVAL)
    with pytest.raises(KindNotServed):
        await mapper.resource_of("example.com", "Widget")
    assert sorted(transport.paths) == sorted(_READ_ALL * 2)


async def test_a_kind_that_is_defined_later_is_found(
    cluster: Cluster, mapper: ResourceMapper
) -> None:
    with pytest.raises(KindNotServed):
        await mapper.resource_of("example.com", "Widget", "v1")
    await User(cluster).create(DEFINITIONS, definition())
    await asyncio.sleep(RETRY_INTERVAL)
    found = await mapper.resource_of("example.com", "Widget", "v1")
    assert _name(found) == ("widgets.example.com", "v1", "Widget")


async def test_a_resource_in_doubt_is_discovered_again(
    cluster: Cluster, mapper: ResourceMapper
) -> None:
    """Its definition was deleted."""
    user = User(cluster)
    await user.create(DEFINITIONS, definition())
    await mapper.resource_of("example.com", "Widget", "v1")
    await cluster.client.delete(DEFINITIONS, "", "widgets.example.com")
    await asyncio.sleep(RETRY_INTERVAL)
    assert await mapper.resource_of("example.com", "Widget", "v1")
    mapper.doubt()
    with pytest.raises(KindNotServed):
        await mapper.resource_of("example.com", "Widget", "v1")


async def test_a_failed_discovery_fails_misses_only(
    mapper: ResourceMapper, transport: _Watched
) -> None:
    transport.broken = True
    asked = [mapper.resource_of("apps", "Deployment") for _ in range(3)]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(each) for each in answers] == [TransportError] * 3
    with pytest.raises(TransportError):
        await mapper.resource_of("apps", "Deployment")
    assert transport.paths == ["/api"] * 2  # sent again, as its connection broke
    transport.broken = False
    await asyncio.sleep(RETRY_INTERVAL)
    known = await mapper.resource_of("apps", "Deployment")
    transport.broken = True
    await asyncio.sleep(RETRY_INTERVAL)
    with pytest.raises(TransportError):
        await mapper.resource_of("example.com", "Widget")
    mapper.doubt()
    assert await mapper.resource_of("apps", "Deployment") == known
    await asyncio.sleep(RETRY_INTERVAL)
    assert await mapper.resource_of("apps", "Deployment") == known


async def test_a_discovery_that_began_too_early_is_followed_by_another(
    mapper: ResourceMapper, transport: _Watched
) -> None:
    """It may lack resources that have been served since it began."""
    early = asyncio.create_task(mapper.discovery(30))
    await asyncio.sleep(0.15)
    await mapper.discovery(0.1)
    await early
    assert sorted(transport.paths) == sorted(_READ_ALL * 2)


async def test_after_a_failure_discovery_is_read_again(
    mapper: ResourceMapper, transport: _Watched
) -> None:
    transport.broken = True
    for _ in range(2):
        with pytest.raises(TransportError):
            await mapper.discovery(30)
    transport.broken = False
    assert (await mapper.discovery(30)).resources


async def test_a_discovery_is_as_new_as_asked_for(
    mapper: ResourceMapper, transport: _Watched
) -> None:
    """A controller that follows all kinds asks for it now and then."""
    first = await mapper.discovery(30)
    await asyncio.sleep(29)
    assert await mapper.discovery(30) is first
    await asyncio.sleep(2)
    assert await mapper.discovery(30) == first
    assert sorted(transport.paths) == sorted(_READ_ALL * 2)
