"""Dry runs go only to the API server itself, which honours them."""

import asyncio
import json
from dataclasses import dataclass, field

import msgspec
import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Request, Response
from controller_manager.preview.preview import PreviewTransport
from tests.clusters import Cluster
from tests.preview.shadow import Witness
from tests.preview.test_transport import POD, previewed_cluster

pytestmark = pytest.mark.looptime

SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
OBJECT: JSON = {"apiVersion": "a.io/v1", "kind": "Thing", "metadata": {"name": "a"}}
AGGREGATED: JSON = {"service": {"namespace": "default", "name": "things"}}


@dataclass
class Server(Witness):
    """A server with objects of one group, which ignores that a write is a dry run."""

    group: str = "a.io"
    status: int = 200
    spec: JSON = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    sent: list[str] = field(default_factory=list)

    async def request(self, request: Request) -> Response:
        if request.path == f"{SERVICES}/v1.{self.group}":
            self.asked.append(request.path)
            service = {"kind": "APIService", "spec": self.spec}
            return Response(self.status, {}, msgspec.json.encode(service))
        if not request.path.startswith(f"/apis/{self.group}/"):
            return await self.inner.request(request)
        if request.method != "GET":
            self.sent.append(f"{request.method} {request.path}")
        found = request.method == "GET" and not request.path.endswith("/new")
        return Response(200 if found else 404, {}, msgspec.json.encode(OBJECT))


async def write_all(cluster: Cluster, server: Server) -> None:
    group = server.group
    transport = _transport(cluster, server)
    where = f"/apis/{group}/v1/namespaces/default/things"
    named = {**OBJECT, "metadata": {"name": "new"}}
    patch = {"content-type": "application/merge-patch+json"}
    for request in (
        Request("POST", where, body=json.dumps(named).encode()),
        Request("PUT", f"{where}/b", body=json.dumps(OBJECT).encode()),
        Request("PATCH", f"{where}/c", headers=patch, body=b"{}"),
        Request("PUT", f"{where}/d/status", body=json.dumps(OBJECT).encode()),
        Request("DELETE", f"{where}/e", body=b"{}"),
    ):
        assert (await transport.request(request)).status < 300


def _transport(cluster: Cluster, server: Server) -> PreviewTransport:
    found = previewed_cluster(cluster, server, dry_run=True)
    made = found.preview.transport("tested-controller")
    assert isinstance(made, PreviewTransport)
    return made


async def test_a_server_behind_the_api_server_gets_no_dry_run(cluster: Cluster) -> None:
    """It may ignore that it is one, and do the write."""
    server = Server(cluster.transport, spec=AGGREGATED)
    await write_all(cluster, server)
    assert server.sent == []


@pytest.mark.parametrize("status", [403, 404, 500])
async def test_a_group_whose_server_is_not_known_gets_no_dry_run(
    cluster: Cluster, status: int
) -> None:
    """The preview must not write, so it asks nothing in doubt."""
    server = Server(cluster.transport, status=status)
    await write_all(cluster, server)
    assert server.sent == []


async def test_custom_resources_get_dry_runs(cluster: Cluster) -> None:
    """The API server serves them itself; whether it does is asked once for all."""
    server = Server(cluster.transport)
    await write_all(cluster, server)
    assert [each.partition(" ")[0] for each in server.sent] == [
        "POST",
        "PUT",
        "PATCH",
        "PUT",
        "DELETE",
    ]
    assert server.asked == [f"{SERVICES}/v1.a.io"]


async def test_a_group_that_moves_gets_no_dry_run(cluster: Cluster) -> None:
    server = Server(cluster.transport)
    transport = _transport(cluster, server)
    path = "/apis/a.io/v1/namespaces/default/things/b"
    write = Request("DELETE", path, body=b"{}")
    await transport.request(write)
    assert len(server.sent) == 1
    server.spec = AGGREGATED
    await asyncio.sleep(11)
    await transport.request(Request("DELETE", path.replace("/b", "/c"), body=b"{}"))
    assert len(server.sent) == 1


async def test_each_version_of_a_group_is_asked_for(cluster: Cluster) -> None:
    server = Server(cluster.transport, spec=AGGREGATED, group="apps")
    await write_all(cluster, server)
    assert server.asked == [f"{SERVICES}/v1.apps"]
    assert server.sent == []


async def test_a_request_that_a_pod_would_get_is_no_dry_run(cluster: Cluster) -> None:
    """A program behind the proxy of a pod or a node knows no dry runs."""
    cluster.add("Pod", "a", spec=POD["spec"])
    witness = Witness(cluster.transport)
    found = previewed_cluster(cluster, witness, dry_run=True)
    transport = found.preview.transport("tested-controller")
    path = "/api/v1/namespaces/default/pods/a/proxy"
    patch = {"content-type": "application/merge-patch+json"}
    await transport.request(Request("PATCH", path, headers=patch, body=b"{}"))
    await transport.request(Request("PUT", path, body=json.dumps(POD).encode()))
    assert (witness.writes, witness.dry_runs) == ([], 0)
