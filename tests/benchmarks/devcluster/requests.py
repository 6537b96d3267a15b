"""Requests over HTTPS, by clients in a process of their own.

They know nothing of the cluster but its kubeconfig. So a real API server can be
measured in the same way.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import msgspec

from controller_manager.api.json_objects import JSON
from controller_manager.client.identity.credentials import from_kubeconfig
from controller_manager.client.rest.transport import Request, Response
from controller_manager.client.wire.http import HTTPTransport
from controller_manager.clock import SystemClock

Figures = dict[str, float]

NAMESPACE: Final = "default"
PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
MAPS: Final = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
_PREFIX: Final = "bench"
_MERGE_PATCH: Final = "application/merge-patch+json"
_PATIENCE: Final = 300.0


async def measure_requests(kubeconfig: Path, pods: int, clients: int) -> Figures:
    """Return pods and requests a second; delete the created pods again."""
    credentials = from_kubeconfig(str(kubeconfig), "", SystemClock())
    transport = HTTPTransport(credentials, "controller-manager-benchmarks")
    try:
        return await _Measured(transport, clients).run(pods)
    finally:
        await transport.close()


async def created_until_ready(
    kubeconfig: Path, prefix: str, pods: int, clients: int
) -> tuple[float, float]:
    """Create pods with this prefix.

    Return the seconds until all exist, and until all are ready.
    """
    credentials = from_kubeconfig(str(kubeconfig), "", SystemClock())
    transport = HTTPTransport(credentials, "controller-manager-benchmarks")
    try:
        return await _Measured(transport, clients, prefix).create_until_ready(pods)
    finally:
        await transport.close()


class _Measured:
    def __init__(
        self, transport: HTTPTransport, clients: int, prefix: str = _PREFIX
    ) -> None:
        self._transport = transport
        self._clients = clients
        self._prefix = prefix

    async def run(self, number: int) -> Figures:
        figures = await self._pods(number)
        names = self._names(number)
        for what, work in (
            ("create", lambda name: self._send("POST", MAPS, config_map(name))),
            ("get", lambda name: self._send("GET", f"{MAPS}/{name}")),
            (
                "patch",
                lambda name: self._send(
                    "PATCH", f"{MAPS}/{name}", {"data": {"key": "new"}}, _MERGE_PATCH
                ),
            ),
            ("delete", lambda name: self._send("DELETE", f"{MAPS}/{name}")),
        ):
            figures[f"config maps, {what} /s"] = await self._rate(names, work)
        await self._delete_pods(names)
        return figures

    async def _pods(self, number: int) -> Figures:
        created, ready = await self.create_until_ready(number)
        return {
            "pods, created /s": number / created,
            "pods, created and ready /s": number / ready,
        }

    async def create_until_ready(self, number: int) -> tuple[float, float]:
        """Create pods, and wait until a watch has shown all of them ready."""
        watching = asyncio.create_task(self._until_ready(number))
        began = time.perf_counter()
        await self._rate(
            self._names(number),
            lambda name: self._send("POST", PODS, pod(name, self._prefix)),
        )
        created = time.perf_counter() - began
        async with asyncio.timeout(_PATIENCE):
            await watching
        return created, time.perf_counter() - began

    def _names(self, number: int) -> list[str]:
        return [f"{self._prefix}-{each}" for each in range(number)]

    async def _until_ready(self, number: int) -> None:
        query = (("watch", "true"), ("labelSelector", f"app={self._prefix}"))
        request = Request("GET", PODS, query=query, timeout=_PATIENCE)
        stream = await self._transport.stream(request)
        ready: set[str] = set()
        rest = b""
        try:
            async for piece in stream.chunks():
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    obj = msgspec.json.decode(line)["object"]
                    if is_ready(obj):
                        ready.add(obj["metadata"]["name"])
                if len(ready) >= number:
                    return
        finally:
            await stream.close()

    async def _delete_pods(self, names: list[str]) -> None:
        now = {"gracePeriodSeconds": 0}
        await self._rate(
            names, lambda name: self._send("DELETE", f"{PODS}/{name}", now)
        )

    async def _rate(
        self, names: list[str], work: Callable[[str], Awaitable[object]]
    ) -> float:
        """Return how many pieces of work a second all clients do together."""
        waiting = iter(names)

        async def client() -> None:
            for name in waiting:
                await work(name)

        began = time.perf_counter()
        await asyncio.gather(*(client() for _ in range(self._clients)))
        return len(names) / (time.perf_counter() - began)

    async def _send(
        self,
        method: str,
        path: str,
        body: JSON | None = None,
        content_type: str = "application/json",
    ) -> Response:
        encoded = None if body is None else msgspec.json.encode(body)
        headers = {"content-type": content_type, "accept": "application/json"}
        answer = await self._transport.request(
            Request(method, path, headers=headers, body=encoded)
        )
        if answer.status >= 300:
            msg = f"{method} {path}: {answer.status} {answer.body.decode()}"
            raise RuntimeError(msg)
        return answer


def pod(name: str, app: str = _PREFIX) -> JSON:
    """Return a pod as ``kubectl run`` makes it, with a request."""
    container = {
        "name": name,
        "image": "registry.k8s.io/pause:3.10",
        "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": app}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
    }


def config_map(name: str) -> JSON:
    """Return a small config map."""
    metadata = {"name": name, "labels": {"app": _PREFIX}}
    data = {"key": "value", "text": "x" * 200}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def is_ready(obj: JSON) -> bool:
    """Tell whether a pod is ready."""
    return any(
        each["type"] == "Ready" and each["status"] == "True"
        for each in obj.get("status", {}).get("conditions", ())
    )
