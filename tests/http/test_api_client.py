"""An ApiClient of kubernetes_asyncio over the connections of our own transport."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest_asyncio
from kubernetes_asyncio import client, watch

from controller_manager.client.rest.client import Client
from controller_manager.client.wire.http import HTTPTransport
from controller_manager.clock import SystemClock
from controller_manager.devcluster.cluster import ClusterOptions, DevCluster


@pytest_asyncio.fixture
async def cluster() -> AsyncGenerator[DevCluster, None]:
    async with DevCluster(ClusterOptions(nodes=0), SystemClock()) as made:
        yield made


async def test_code_for_kubernetes_asyncio_runs_over_our_connections(
    cluster: DevCluster,
) -> None:
    transport = HTTPTransport(cluster.credentials(), "census/v1")
    core: Any = client.CoreV1Api(Client(transport, SystemClock()).api_client())
    names: list[str] = []
    changed = asyncio.Event()

    async def follow() -> None:
        async for event in watch.Watch().stream(core.list_namespace):
            names.append(event["object"].metadata.name)
            if names[-1] == "shop":
                changed.set()

    following = asyncio.create_task(follow())
    try:
        await core.create_namespace({"metadata": {"name": "shop"}})
        await changed.wait()
        listed = await core.list_namespace()
        assert {each.metadata.name for each in listed.items} == set(names)
        (managed,) = (await core.read_namespace("shop")).metadata.managed_fields
        assert managed.manager == "census"
    finally:
        following.cancel()
        await asyncio.wait([following])
        await transport.close()
