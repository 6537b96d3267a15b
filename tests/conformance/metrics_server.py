"""The metrics APIs for an API server that has none, as a server of their own.

The development cluster serves these APIs itself. On a real cluster this server is
registered with the API server, which must run on this machine; its answers are those of
the development cluster.
"""

import asyncio
import json
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Final

from aiohttp import web

from controller_manager.api.core.v1 import CONFIG_MAPS, PODS
from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Request, Transport
from controller_manager.clock import SystemClock
from controller_manager.devcluster.metrics.answers import (
    RESOURCE_METRICS,
    VERSIONS,
    Settings,
    answer,
    parse_settings,
)
from controller_manager.serving.certificates import self_signed
from controller_manager.serving.server import listen
from tests.conformance.access import MERGE, NOT_FOUND, Access
from tests.conformance.metrics import KEY, NAME

SERVICE: Final = "conformance-metrics"
"""The name of the service by which the API server finds this server."""

_SERVICES: Final = "/api/v1/namespaces/kube-system/services"
_REGISTRATION: Final = "apiregistration.k8s.io"
_API_SERVICES: Final = f"/apis/{_REGISTRATION}/v1/apiservices"
_NOT_YET: Final = (HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE)
_PATIENCE: Final = 120
"""Seconds until the API server must have found this server."""


def discovery(group: str) -> JSON:
    """Return the resources of a metrics API; those of custom metrics are not listed."""
    kinds = (("pods", "PodMetrics", True), ("nodes", "NodeMetrics", False))
    listed = kinds if group == RESOURCE_METRICS else ()
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{VERSIONS[group]}",
        "resources": [
            {
                "name": name,
                "singularName": "",
                "namespaced": namespaced,
                "kind": kind,
                "verbs": ["get", "list"],
            }
            for name, kind, namespaced in listed
        ],
    }


class MetricsAPIs:
    """Answers requests to the metrics APIs, from the objects of an API server."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._clock = SystemClock()

    async def answer(self, path: str, query: dict[str, str]) -> tuple[int, JSON]:
        """Return the status and the body of the answer to a GET."""
        parts = path.strip("/").split("/")
        if parts[:1] == ["apis"] and parts[1:] and len(parts) == 3:
            return HTTPStatus.OK, discovery(parts[1])
        namespace = parts[4] if parts[3:4] == ["namespaces"] and parts[5:] else ""
        pods = (await self._get(PODS.path(namespace)) or {}).get("items") or []
        said = await self._get(CONFIG_MAPS.path(namespace, NAME)) if namespace else None
        settings = parse_settings(said["data"][KEY]) if said else Settings()
        return answer(settings, pods, path, query, self._clock.now())

    async def _get(self, path: str) -> JSON | None:
        found = await self._transport.request(Request("GET", path))
        decoded: JSON = json.loads(found.body)
        return decoded if found.status == HTTPStatus.OK else None


@asynccontextmanager
async def serving(apis: MetricsAPIs) -> AsyncGenerator[int, None]:
    """Serve the metrics APIs over HTTPS while entered; yield the port."""

    async def handle(request: web.Request) -> web.Response:
        code, body = await apis.answer(request.path, dict(request.query))
        return web.json_response(body, status=code)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app, access_log=None)
    tls = self_signed("localhost", ["localhost"]).ssl_context()
    port = await listen(runner, "127.0.0.1", 0, "free a port", tls)
    try:
        yield port
    finally:
        await runner.cleanup()


class MetricsServer:
    """Serves the metrics APIs in a thread of its own, once somebody needs them.

    `connect` makes a transport to the API server, in the event loop of the thread.
    """

    def __init__(self, connect: Callable[[], Transport]) -> None:
        self._connect = connect
        self._stop = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._port = 0
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))

    async def require(self, access: Access) -> None:
        """Register the server, unless the cluster serves the metrics APIs itself.

        Raises AssertionError if the cluster has metrics APIs of somebody else, or does
        not find this server.
        """
        if self._port or not await _is_extensible(access):
            return
        await _check_unused(access)
        self._thread.start()
        await asyncio.to_thread(self._started.wait)
        await register(access, self._port)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        transport = self._connect()
        async with serving(MetricsAPIs(transport)) as self._port:
            self._started.set()
            await self._stop.wait()
        await transport.close()

    def stop(self) -> None:
        """End the server, if it was started."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()


async def _is_extensible(access: Access) -> bool:
    """Tell whether servers can be registered; a development cluster reaches none."""
    version = await access.call("GET", "/version")
    return bool(version["compiler"] != "python")


async def _groups(access: Access) -> set[str]:
    return {each["name"] for each in (await access.call("GET", "/apis"))["groups"]}


async def _check_unused(access: Access) -> None:
    listed = (await access.call("GET", _API_SERVICES))["items"]
    others = [
        each["metadata"]["name"]
        for each in listed
        if each["spec"].get("group") in VERSIONS
        and (each["spec"].get("service") or {}).get("name") != SERVICE
    ]
    assert others == [], f"the cluster has metrics APIs of its own: {others}"


async def register(access: Access, port: int) -> None:
    """Let the API server pass requests to the metrics APIs on to this port.

    Raises AssertionError if it does not do so in time.
    """
    ports = [{"port": port}]
    external = {"type": "ExternalName", "externalName": "localhost", "ports": ports}
    await _put(access, _SERVICES, SERVICE, {"spec": external})
    for group, version in VERSIONS.items():
        spec = {
            "group": group,
            "version": version,
            "insecureSkipTLSVerify": True,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "service": {"namespace": "kube-system", "name": SERVICE, "port": port},
        }
        await _put(access, _API_SERVICES, f"{version}.{group}", {"spec": spec})
    for _ in range(_PATIENCE):
        if await _is_served(access):
            return
        await asyncio.sleep(1)
    msg = "the API server does not find the metrics APIs; does it run on this machine?"
    raise AssertionError(msg)


async def _put(access: Access, collection: str, name: str, body: JSON) -> None:
    """Create an object, or change the one that an earlier run has left behind."""
    path = f"{collection}/{name}"
    found = await access.call("PATCH", path, body, MERGE, expected=NOT_FOUND)
    if found["kind"] == "Status":
        named = {**body, "metadata": {"name": name}}
        await access.call("POST", collection, named)


async def _is_served(access: Access) -> bool:
    if not VERSIONS.keys() <= await _groups(access):
        return False
    try:
        answers = [
            await access.call("GET", f"/apis/{group}/{version}", expected=_NOT_YET)
            for group, version in VERSIONS.items()
        ]
    except json.JSONDecodeError:
        return False  # a plain text says that the group is not known yet
    return all(each["kind"] == "APIResourceList" for each in answers)
