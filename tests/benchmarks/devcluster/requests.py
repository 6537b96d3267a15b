"""Requests over HTTPS, by clients in a process of their own.

They know nothing of the cluster but its kubeconfig. So a real API server can be
measured in the same way.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any, Final

from controller_manager.api.json_objects import JSON
from tests.benchmarks.driver import Driver, driver_for
from tests.benchmarks.measuring import Figures

PODS: Final = "/api/v1/namespaces/default/pods"
MAPS: Final = "/api/v1/namespaces/default/configmaps"
_PREFIX: Final = "bench"
_PATIENCE: Final = 300.0


async def measure_requests(kubeconfig: Path, pods: int, clients: int) -> Figures:
    """Return pods and requests a second; delete the created pods again."""
    names = [f"{_PREFIX}-{each}" for each in range(pods)]
    created, ready = await created_until_ready(kubeconfig, _PREFIX, pods, clients)
    figures = {
        "pods, created /s": pods / created,
        "pods, created and ready /s": pods / ready,
    }
    async with driver_for(kubeconfig, clients) as driver:
        call, patch = driver.call, {"data": {"key": "new"}}
        for what, work in (
            ("create", lambda name: call("POST", MAPS, config_map(name))),
            ("get", lambda name: call("GET", f"{MAPS}/{name}")),
            ("patch", lambda name: call("PATCH", f"{MAPS}/{name}", patch)),
            ("delete", lambda name: call("DELETE", f"{MAPS}/{name}")),
        ):
            seconds = await _by_clients(names, clients, work)
            figures[f"config maps, {what} /s"] = pods / seconds
        now = {"gracePeriodSeconds": 0}
        await _by_clients(
            names, clients, lambda name: call("DELETE", f"{PODS}/{name}", now)
        )
    return figures


async def created_until_ready(
    kubeconfig: Path, prefix: str, pods: int, clients: int
) -> tuple[float, float]:
    """Create pods with this prefix.

    Return the seconds until all exist, and until a watch has shown all of them ready.
    """
    names = [f"{prefix}-{each}" for each in range(pods)]
    async with driver_for(kubeconfig, clients) as driver:
        watching = asyncio.create_task(_until_ready(driver, prefix, pods))
        began = time.perf_counter()
        created = await _by_clients(
            names, clients, lambda name: driver.call("POST", PODS, pod(name, prefix))
        )
        async with asyncio.timeout(_PATIENCE):
            await watching
        return created, time.perf_counter() - began


async def _until_ready(driver: Driver, app: str, number: int) -> None:
    ready: set[str] = set()
    async with aclosing(driver.watch(PODS, labelSelector=f"app={app}")) as events:
        async for _, obj in events:
            if is_ready(obj):
                ready.add(obj["metadata"]["name"])
            if len(ready) >= number:
                return


async def _by_clients(
    names: list[str], clients: int, work: Callable[[str], Awaitable[Any]]
) -> float:
    """Return the seconds in which so many clients together do pieces of work."""
    waiting = iter(names)

    async def client() -> None:
        for name in waiting:
            await work(name)

    began = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(clients)))
    return time.perf_counter() - began


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
