"""The development cluster over HTTPS, with faults and a record of all requests."""

import asyncio
import itertools
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import msgspec
from aiohttp import web

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Request, Response
from controller_manager.clock import SystemClock
from controller_manager.devcluster.cluster import ADMIN, ClusterOptions, DevCluster
from controller_manager.devcluster.controlplane import APIServer
from controller_manager.devcluster.http_server import HTTPServer

Fault = Callable[[web.BaseRequest], Awaitable[web.Response | None]]
"""Delays a request, answers it, or lets it pass (returns `None`)."""

_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


@dataclass(slots=True)
class RecordedRequest:
    """A request that came over HTTPS, and therefore from the daemon.

    `path` is still escaped. `status` is 0 until there is an answer, and stays 0 if
    the client does not wait for it. A watch has ended when one side has closed it.
    """

    at: float
    method: str
    path: str
    query: str
    status: int = 0
    ended_at: float = 0.0

    @property
    def is_watch(self) -> bool:
        """True if the request is a watch."""
        return "watch=true" in self.query


class FaultyHTTPServer(HTTPServer):
    """Records every request, and calls each fault before it answers."""

    def __init__(self, server: APIServer, tls: ssl.SSLContext) -> None:
        super().__init__(server, 0, tls)
        self.requests: list[RecordedRequest] = []
        self.faults: list[Fault] = []

    def _connection(self, usual: Callable[[], asyncio.Protocol]) -> asyncio.Protocol:
        return usual()  # faults know the requests of aiohttp

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        loop = asyncio.get_running_loop()
        path, _, query = request.raw_path.partition("?")
        seen = RecordedRequest(loop.time(), request.method, path, query)
        self.requests.append(seen)
        try:
            answer = await self._faulty(request)
            seen.status = answer.status
            return answer
        finally:
            seen.ended_at = loop.time()

    async def _faulty(self, request: web.BaseRequest) -> web.StreamResponse:
        for fault in self.faults:
            if (answer := await fault(request)) is not None:
                return answer
        return await super()._handle(request)


class FaultyCluster:
    """A cluster that is running; made by `faulty_cluster`."""

    def __init__(self, cluster: DevCluster, http_server: FaultyHTTPServer) -> None:
        self._http = http_server
        self.server = cluster.server
        self.url = cluster.url
        self.kubeconfig = cluster.kubeconfig()

    @property
    def requests(self) -> list[RecordedRequest]:
        """All requests of the daemon, in the order in which they came."""
        return self._http.requests

    @property
    def faults(self) -> list[Fault]:
        return self._http.faults

    @property
    def token(self) -> str:
        return str(self.kubeconfig["users"][0]["user"]["token"])

    def cut_connections(self) -> None:
        """Close the daemon's connections, as a restarting load balancer does."""
        self._http.cut_connections()

    # Requests of the test itself: in memory, so without faults.

    async def create(self, path: str, obj: JSON) -> JSON:
        """Create an object as the administrator."""
        return await self._call("POST", path, obj)

    async def delete(self, path: str) -> None:
        await self._call("DELETE", path, None)

    async def _call(self, method: str, path: str, obj: JSON | None) -> JSON:
        body = msgspec.json.encode(obj) if obj is not None else None
        headers = {"content-type": "application/json"}
        request = Request(method, path, headers=headers, body=body)
        answer = await self.server.handle_as(ADMIN, request)
        assert isinstance(answer, Response)
        assert answer.status < 300, answer.body
        created: JSON = msgspec.json.decode(answer.body)
        return created

    def stored(self, resource: str, namespace: str = "") -> list[JSON]:
        """Return the objects of a resource (``plural.group``), or of one namespace."""
        return [
            each.obj
            for each in self.server.storage.collection(resource)
            if each.obj["metadata"].get("namespace", "") == namespace
        ]

    def has(self, resource: str, namespace: str, name: str) -> bool:
        """Tell whether an object is stored."""
        key = (namespace, name)
        return self.server.storage.collection(resource).get(key) is not None

    # The lease.

    def renewals(self) -> list[float]:
        """Return when the lease was taken or renewed, on the loop's clock."""
        return [
            each.at
            for each in self.requests
            if each.method in ("POST", "PUT", "PATCH")
            and each.path.startswith(_LEASES)
            and each.status in (200, 201)
        ]

    def longest_without_renewal(self) -> float:
        times = [*self.renewals(), asyncio.get_running_loop().time()]
        return max(after - before for before, after in itertools.pairwise(times))


@asynccontextmanager
async def faulty_cluster(
    *namespaces: str, start_delay: float = 0.05
) -> AsyncGenerator[FaultyCluster, None]:
    """Run a cluster with three nodes and some namespaces while entered."""
    options = ClusterOptions(pod_start_delay=start_delay, grace_scale=0)
    cluster = DevCluster(options, SystemClock())
    http_server = FaultyHTTPServer(cluster.server, cluster._tls())
    cluster._http = http_server
    async with cluster:
        faulty = FaultyCluster(cluster, http_server)
        for name in namespaces:
            await faulty.create("/api/v1/namespaces", {"metadata": {"name": name}})
        yield faulty


def refusal(status: int, reason: str, message: str) -> web.Response:
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": status,
    }
    return web.json_response(body, status=status)
