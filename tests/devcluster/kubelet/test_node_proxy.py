"""The proxy of a node connects to its kubelet."""

import asyncio
import json

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Request
from controller_manager.devcluster.apiserver.security import User
from controller_manager.devcluster.inmemory import InMemoryTransport
from tests.clusters import Cluster
from tests.devcluster.kubelet.objects import CORE, PODS, create_pod, send
from tests.devcluster.requests import call
from tests.devcluster.rows import rows

pytestmark = pytest.mark.looptime

PROXY = f"{CORE}/nodes/node-0/proxy"


async def kubelet_pods(cluster: Cluster, node: str) -> list[JSON]:
    found = await send(cluster, "GET", f"{CORE}/nodes/{node}/proxy/pods")
    assert {**found, "items": []} == {
        "kind": "PodList",
        "apiVersion": "v1",
        "metadata": {},
        "items": [],
    }
    items: list[JSON] = found["items"]
    return items


async def test_a_kubelet_shows_that_a_pod_terminates(cluster: Cluster) -> None:
    """Until the pod has ended; then the kubelet has it no longer."""
    async with cluster.nodes(count=2, start_delay=0):
        await create_pod(cluster, "p", nodeName="node-0")
        await create_pod(cluster, "other", nodeName="node-1")
        await asyncio.sleep(1)
        await send(cluster, "DELETE", f"{PODS}/p")
        await asyncio.sleep(20)
        stored = await send(cluster, "GET", f"{PODS}/p")
        shown = {k: v for k, v in stored.items() if k not in ("kind", "apiVersion")}
        assert shown["metadata"]["deletionTimestamp"] == "2026-01-01T00:00:31Z"
        assert await kubelet_pods(cluster, "node-0") == [shown]
        await asyncio.sleep(11)
        assert await kubelet_pods(cluster, "node-0") == []
        (other,) = await kubelet_pods(cluster, "node-1")
        assert other["metadata"]["name"] == "other"


@pytest.mark.parametrize(
    ("method", "path", "status", "text"),
    [
        ("GET", f"{PROXY}/healthz", 200, "ok"),
        ("GET", f"{PROXY}/metrics", 404, "404 page not found\n"),
        ("GET", f"{CORE}/nodes/node-0:10250/proxy/healthz", 200, "ok"),
        ("GET", f"{CORE}/nodes/https:node-0:/proxy/healthz", 200, "ok"),
        ("DELETE", f"{PROXY}/pods", 405, "405: Method Not Allowed"),
        ("GET", f"{PROXY}/nothing", 404, "404 page not found\n"),
        ("GET", PROXY, 301, ""),
    ],
)
async def test_a_kubelet_answers(
    cluster: Cluster, method: str, path: str, status: int, text: str
) -> None:
    """Its port may be named; a path that it does not have is not found."""
    async with cluster.nodes(count=1):
        answer = await call(cluster, method, path)
        assert (answer.status, answer.body.decode()) == (status, text)
        if status == 301:
            assert answer.headers["location"] == f"{PROXY}/"


@rows("node", "status", "reason", "message")
async def test_a_kubelet_that_cannot_be_reached_is_named(
    cluster: Cluster, node: str, status: int, reason: str, message: str
) -> None:
    async with cluster.nodes(count=2):
        body = {"metadata": {"annotations": {"devcluster/stopped": "true"}}}
        await send(cluster, "PATCH", f"{CORE}/nodes/node-1", body)
        answer = await call(cluster, "GET", f"{CORE}/nodes/{node}/proxy/pods")
        found = json.loads(answer.body)
        assert (found["code"], found["reason"], found["message"]) == (
            status,
            reason,
            message,
        )
        assert answer.status == status


async def test_the_proxy_of_a_node_needs_the_permission_for_it() -> None:
    cluster = Cluster(rbac=True)
    cluster.server.tokens.add("jane", User("jane"))
    transport = InMemoryTransport(cluster.server, "jane")
    async with cluster.nodes(count=1):
        answer = await transport.request(Request("GET", f"{PROXY}/pods"))
        assert json.loads(answer.body)["message"] == (
            'nodes "node-0" is forbidden: User "jane" cannot get resource '
            '"nodes/proxy" in API group "" at the cluster scope'
        )
