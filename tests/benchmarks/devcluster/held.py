"""Many objects in one API server, without the network."""

import gc
import os
import random
import time
from collections.abc import Awaitable, Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from controller_manager.client.rest.transport import Request, Response
from controller_manager.clock import SystemClock
from controller_manager.devcluster.cluster import ADMIN
from controller_manager.devcluster.controlplane import APIServer, add_system_namespaces
from controller_manager.devcluster.inmemory import StreamingResponse
from tests.benchmarks.devcluster.requests import PODS, pod
from tests.benchmarks.machine import usage_of
from tests.benchmarks.measuring import Figures

_TOKEN: Final = "benchmarks"
_PAGE: Final = "500"
_PATCHES: Final = 1000
_WHOLE: Final[Mapping[str, str]] = MappingProxyType({})


async def measure_held(number: int) -> Figures:
    """Return the costs of holding, listing, paging and watching so many pods."""
    server = APIServer(
        clock=SystemClock(), rng=random.SystemRandom(), users={_TOKEN: ADMIN}
    )
    add_system_namespaces(server.objects)
    held = _Held(server)
    await held.create("first")  # modules that are imported on demand are imported now
    gc.collect()
    before, began = usage_of(os.getpid()).resident, time.process_time()
    for each in range(number):
        await held.create(f"pod-{each}")
    seconds = time.process_time() - began
    gc.collect()
    memory = (usage_of(os.getpid()).resident - before) * 1024 / number
    return {
        "pods, created /s": number / seconds,
        "memory of a pod, kB": memory,
        "list of all, ms": await _milliseconds(held.list()),
        "the first page of 500, ms": await _milliseconds(held.list({"limit": _PAGE})),
        "all pages of 500, ms": await _milliseconds(held.pages()),
        "list by label, ms": await _milliseconds(
            held.list({"labelSelector": "app=none"})
        ),
        "watch of all from the start, ms": await _milliseconds(held.watch(number)),
        "patches beside them, /s": 1000
        * _PATCHES
        / await _milliseconds(held.patch(_PATCHES, number)),
    }


async def _milliseconds(work: Awaitable[object]) -> float:
    """Return the CPU time of some work."""
    gc.collect()
    began = time.process_time()
    await work
    return 1000 * (time.process_time() - began)


class _Held:
    def __init__(self, server: APIServer) -> None:
        self._server = server

    async def create(self, name: str) -> None:
        await self._send("POST", PODS, msgspec.json.encode(pod(name)))

    async def list(self, query: Mapping[str, str] = _WHOLE) -> dict[str, Any]:
        answer = await self._send("GET", PODS, query=query)
        assert isinstance(answer, Response)
        metadata: dict[str, Any] = _LIST.decode(answer.body).metadata
        return metadata

    async def pages(self) -> None:
        token = ""
        while True:
            more = {"continue": token} if token else {}
            metadata = await self.list({"limit": _PAGE, **more})
            if not (token := metadata.get("continue", "")):
                return

    async def watch(self, number: int) -> None:
        answer = await self._send("GET", PODS, query={"watch": "true"})
        assert not isinstance(answer, Response)
        seen = 0
        chunks = answer.chunks()
        async for chunk in chunks:
            seen += chunk.count(b"\n")
            if seen >= number:
                break
        await chunks.aclose()

    async def patch(self, times: int, number: int) -> None:
        for each in range(times):
            body = msgspec.json.encode({"metadata": {"labels": {"patched": "yes"}}})
            await self._send("PATCH", f"{PODS}/pod-{each % number}", body)

    async def _send(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        query: Mapping[str, str] = _WHOLE,
    ) -> Response | StreamingResponse:
        kind = "application/merge-patch+json" if method == "PATCH" else _JSON
        headers = {"authorization": f"Bearer {_TOKEN}", "content-type": kind}
        request = Request(
            method, path, query=tuple(query.items()), headers=headers, body=body
        )
        answer = await self._server.handle(request)
        assert answer.status < 300, answer
        return answer


_JSON: Final = "application/json"


class _List(msgspec.Struct):
    metadata: dict[str, Any]


_LIST: Final = msgspec.json.Decoder(_List)
