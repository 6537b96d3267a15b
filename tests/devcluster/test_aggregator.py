"""An API server on this machine, behind the service of an APIService."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.testing import ClusterSettings, DevelopmentCluster
from tests.devcluster.admission.webhook_server import bundle, certificate
from tests.devcluster.rows import parsed
from tests.devcluster.testing.calls import Answer, Caller
from tests.devcluster.testing.test_faults import wait_until

SERVICES = "/api/v1/namespaces/default/services"
API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
GROUP = "/apis/wardle.example.com/v1alpha1"
RESOURCES: JSON = parsed("""
    kind: APIResourceList
    apiVersion: v1
    groupVersion: wardle.example.com/v1alpha1
    resources:
      - name: flunders
        singularName: flunder
        namespaced: true
        kind: Flunder
        verbs: [create, get, list, watch]
        shortNames: [fl]
      - name: flunders/status
        singularName: ''
        namespaced: true
        kind: Flunder
        verbs: [get]""")


@pytest.fixture(scope="module")
def aggregating() -> Iterator[DevelopmentCluster]:
    with DevelopmentCluster(ClusterSettings(nodes=0, controllers=())) as cluster:
        yield cluster


class Extension:
    """An API server that keeps the requests that it gets."""

    def __init__(self) -> None:
        self.requests: list[web.BaseRequest] = []
        self.port = 0
        self.is_ill = False

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer discovery, a watch, and everything else with a list."""
        if self.is_ill:
            return web.Response(status=500)
        if request.path == GROUP:
            return web.json_response(RESOURCES)
        self.requests.append(request)
        if request.query.get("watch"):
            text = '{"type":"ADDED","object":{}}\n'
            return web.Response(text=text, content_type="application/json")
        version = "wardle.example.com/v1alpha1"
        found = {"kind": "FlunderList", "apiVersion": version, "items": []}
        return web.json_response(found)


@pytest_asyncio.fixture
async def extension() -> AsyncGenerator[Extension, None]:
    """Run such a server, whose certificate is for the service ``hook``."""
    server = Extension()
    runner = web.ServerRunner(web.Server(server.handle), shutdown_timeout=0.01)
    await runner.setup()
    context = certificate().ssl_context()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    server.port = runner.addresses[0][1]
    yield server
    await runner.cleanup()


async def send(cluster: DevelopmentCluster, *arguments: Any) -> Answer:
    """Send a request in a thread: the extension runs in this loop."""
    return await asyncio.to_thread(Caller(cluster.kubeconfig).send, *arguments)


async def condition(cluster: DevelopmentCluster, status: str) -> JSON:
    """Return the condition of the APIService once it has a status."""
    path = f"{API_SERVICES}/v1alpha1.wardle.example.com"
    async with asyncio.timeout(10):
        while True:
            obj = (await send(cluster, "GET", path)).body
            for each in obj.get("status", {}).get("conditions", ()):
                if each["status"] == status and "runs no" not in each["message"]:
                    found: JSON = each
                    return found
            await asyncio.sleep(0.1)


@pytest_asyncio.fixture
async def registered(
    aggregating: DevelopmentCluster, extension: Extension
) -> AsyncGenerator[DevelopmentCluster, None]:
    """Register the server, and remove it again."""
    notes = {"devcluster/forward": f"127.0.0.1:{extension.port}"}
    metadata = {"name": "hook", "annotations": notes}
    service = {"metadata": metadata, "spec": {"ports": [{"port": 443}]}}
    await send(aggregating, "POST", SERVICES, service)
    body = {
        "metadata": {"name": "v1alpha1.wardle.example.com"},
        "spec": {
            "group": "wardle.example.com",
            "version": "v1alpha1",
            "service": {"namespace": "default", "name": "hook"},
            "caBundle": bundle(),
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
        },
    }
    assert (await send(aggregating, "POST", API_SERVICES, body)).status == 201
    yield aggregating
    path = f"{API_SERVICES}/v1alpha1.wardle.example.com"
    await send(aggregating, "DELETE", path)
    await send(aggregating, "DELETE", f"{SERVICES}/hook")


async def test_its_kinds_are_discovered_and_served(
    registered: DevelopmentCluster, extension: Extension
) -> None:
    found = await condition(registered, "True")
    assert (found["reason"], found["message"]) == ("Passed", "all checks passed")
    listed = await send(registered, "GET", GROUP)
    names = [each["name"] for each in listed.body["resources"]]
    assert names == ["flunders", "flunders/status"]
    path = f"{GROUP}/namespaces/default/flunders"
    answer = await send(registered, "GET", f"{path}?limit=5")
    assert (answer.status, answer.body["kind"]) == (200, "FlunderList")
    (request,) = extension.requests
    headers = request.headers
    assert (request.path_qs, headers["X-Remote-User"]) == (
        f"{path}?limit=5",
        "kubernetes-admin",
    )
    assert "system:masters" in headers.getall("X-Remote-Group")
    assert "Authorization" not in headers
    events = await send(registered, "GET", f"{path}?watch=true")
    assert events.body == {"type": "ADDED", "object": {}}


async def test_a_request_gets_no_headers_that_its_client_did_not_send(
    registered: DevelopmentCluster, extension: Extension
) -> None:
    """A body without a type is JSON for an API server; no answer comes compressed."""
    await condition(registered, "True")
    caller = Caller(registered.kubeconfig)

    def post() -> int:
        connection = caller.connection(10)
        path = f"{GROUP}/namespaces/default/flunders"
        connection.putrequest("POST", path, skip_accept_encoding=True)
        connection.putheader("Authorization", caller.headers("")["Authorization"])
        connection.putheader("Content-Length", "2")
        connection.endheaders(b"{}")
        status = connection.getresponse().status
        connection.close()
        return status

    assert await asyncio.to_thread(post) == 200
    assert {
        name
        for name in extension.requests[-1].headers
        if not name.lower().startswith("x-")
    } == {"Connection", "Content-Length", "Host"}


async def test_a_server_that_fails_is_not_available(
    registered: DevelopmentCluster, extension: Extension
) -> None:
    """The condition says why; its kinds are gone until it answers again."""
    await condition(registered, "True")
    extension.is_ill = True
    found = await condition(registered, "False")
    where = f"https://hook.default.svc:443{GROUP}"
    assert (found["reason"], found["message"]) == (
        "FailedDiscoveryCheck",
        f"failing or missing response from {where}: bad status from {GROUP}: 500",
    )
    assert (await send(registered, "GET", GROUP)).status == 404
    extension.is_ill = False
    await condition(registered, "True")
    assert (await send(registered, "GET", GROUP)).status == 200


async def test_the_group_is_gone_with_its_api_service(
    registered: DevelopmentCluster,
) -> None:
    await condition(registered, "True")
    await send(registered, "DELETE", f"{API_SERVICES}/v1alpha1.wardle.example.com")
    caller = Caller(registered.kubeconfig)
    await asyncio.to_thread(wait_until, lambda: caller.get(GROUP).status == 404)


def test_a_server_finds_whom_to_trust(aggregating: DevelopmentCluster) -> None:
    """In the config map that all aggregated servers read."""
    path = "/api/v1/namespaces/kube-system/configmaps"
    name = "extension-apiserver-authentication"
    data = Caller(aggregating.kubeconfig).get(f"{path}/{name}").body["data"]
    assert data["requestheader-allowed-names"] == '["front-proxy-client"]'
    assert data["client-ca-file"] == data["requestheader-client-ca-file"]
