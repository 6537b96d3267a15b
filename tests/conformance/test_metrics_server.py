"""Metrics APIs are served and registered where an API server has none."""

import asyncio
import json
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Request, Response, Stream
from tests.clusters import Cluster
from tests.conformance.access import Access
from tests.conformance.metrics import Metrics
from tests.conformance.metrics_server import (
    MetricsAPIs,
    MetricsServer,
    register,
    serving,
)

CUSTOM = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/n"
GROUPS = (
    "apiregistration.k8s.io",
    "custom.metrics.k8s.io",
    "external.metrics.k8s.io",
    "metrics.k8s.io",
)


@asynccontextmanager
async def session() -> AsyncGenerator[aiohttp.ClientSession, None]:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connector = aiohttp.TCPConnector(ssl=context)
    async with aiohttp.ClientSession(connector=connector) as found:
        yield found
    await asyncio.sleep(0.05)


async def test_the_answers_are_those_that_a_scenario_sets() -> None:
    cluster = Cluster()
    cluster.add_namespace("n")
    access = Access(cluster.transport, "n")
    await Metrics(access).answer({"objects": {"services/web": {"hits": "25"}}})
    async with serving(MetricsAPIs(cluster.transport)) as port, session() as http:

        async def get(path: str) -> JSON:
            url = f"https://127.0.0.1:{port}{path}"
            async with http.get(url) as answer:
                decoded: JSON = await answer.json()
                return decoded

        hits = await get(f"{CUSTOM}/services/web/hits")
        misses = await get(f"{CUSTOM}/services/web/misses")
        served = await get("/apis/metrics.k8s.io/v1beta1")
    assert [each["value"] for each in hits["items"]] == ["25"]
    assert (misses["code"], misses["message"]) == (
        404,
        "the server could not find the metric misses for services/web",
    )
    assert [each["kind"] for each in served["resources"]] == [
        "PodMetrics",
        "NodeMetrics",
    ]


class RealServer:
    """Serves what a real API server has for the registration of others."""

    host = "real"

    def __init__(self, *, owner: str = "") -> None:
        self.stored: dict[str, JSON] = {}
        if owner:
            spec = {"group": "metrics.k8s.io", "service": {"name": owner}}
            name = "v1beta1.metrics.k8s.io"
            self.stored[name] = {"metadata": {"name": name}, "spec": spec}
        self.looks = 0

    async def request(self, request: Request) -> Response:
        name = request.path.rpartition("/")[2]
        body = json.loads(request.body) if request.body else {}
        match request.method:
            case "PATCH" if name not in self.stored:
                return _response(404, {"kind": "Status"})
            case "PATCH":
                self.stored[name] |= body
                return _response(200, {"kind": "Changed"})
            case "POST":
                self.stored[body["metadata"]["name"]] = body
                return _response(201, {"kind": "Made"})
        if name == "apiservices":
            items = [each for each in self.stored.values() if "group" in each["spec"]]
            return _response(200, {"kind": "APIServiceList", "items": items})
        if name == "version":
            return _response(200, {"compiler": "gc"})
        if name == "apis":
            return _response(200, {"groups": [{"name": each} for each in GROUPS]})
        self.looks += 1
        if self.looks == 1:
            return Response(404, {}, b"404 page not found")
        return _response(200, {"kind": "APIResourceList"})

    async def stream(self, request: Request) -> Stream:
        pytest.fail(f"nobody watches here: {request.path}")

    async def close(self) -> None:
        pass


def _response(status: int, body: JSON) -> Response:
    return Response(status, {}, json.dumps(body).encode())


@pytest.mark.looptime
async def test_an_api_server_learns_where_the_metrics_apis_are() -> None:
    """Also if an earlier run had another port; it may take a moment."""
    server = RealServer()
    access = Access(server, "n")
    for port in (8443, 9443):
        await register(access, port)
    assert server.stored.keys() == {
        "conformance-metrics",
        "v1beta1.external.metrics.k8s.io",
        "v1beta1.metrics.k8s.io",
        "v1beta2.custom.metrics.k8s.io",
    }
    assert server.stored["conformance-metrics"]["spec"]["ports"] == [{"port": 9443}]
    services = [
        each["spec"]["service"]
        for each in server.stored.values()
        if "service" in each["spec"]
    ]
    where = {"namespace": "kube-system", "name": "conformance-metrics", "port": 9443}
    assert services == [where] * 3


async def test_metrics_apis_of_a_cluster_are_left_alone() -> None:
    """The test says why it cannot be played there."""
    server = MetricsServer(RealServer)
    with pytest.raises(AssertionError, match="has metrics APIs of its own"):
        await server.require(Access(RealServer(owner="metrics-server"), "n"))
    server.stop()


async def test_a_server_is_started_only_where_it_is_needed() -> None:
    """A development cluster serves the metrics APIs itself."""
    cluster = Cluster()
    idle = MetricsServer(RealServer)
    await idle.require(Access(cluster.transport, "n"))
    idle.stop()
    needed, real = MetricsServer(RealServer), RealServer()
    real.looks = 1
    await needed.require(Access(real, "n"))
    await needed.require(Access(real, "n"))
    needed.stop()
    assert len(real.stored) == 4
