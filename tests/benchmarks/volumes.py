"""Benchmark of volumes: as many claims are bound as there are volumes."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Final

from controller_manager.api.json_objects import JSON
from tests.benchmarks.clusters import BenchCluster, cluster_for
from tests.benchmarks.contenders import Contender, Running
from tests.benchmarks.driver import checked
from tests.benchmarks.kinds import Work
from tests.benchmarks.measuring import SETTLE, Figures, Options, per_request
from tests.benchmarks.server import NAMESPACE

_CLASS: Final = "bench"
"""The class of both; no provisioner makes volumes of it."""


async def volumes(contender: Contender, options: Options) -> Figures:
    """Make volumes available, then bind a claim to each of them."""
    contender = contender.running_only(CLAIMS.controllers)
    pairs = options.claims
    log = options.logs / f"{contender.name}.log"
    async with cluster_for(options.kubeconfig, 0) as cluster, _made(cluster, pairs):
        started = time.monotonic()
        with contender.running(cluster.kubeconfig, log) as running:
            done = await cluster.driver.until_complete(
                VOLUMES, {_name(number) for number in range(pairs)}, running.check
            )
            figures = {
                "volumes: wall, s": done - started,
                "volumes: CPU, s": running.usage().cpu,
            }
            await asyncio.sleep(SETTLE)
            await cluster.counts()
            before, started = running.usage(), time.monotonic()
            figures["claims: wall, s"] = await _bind(cluster, running, pairs) - started
            figures["claims: CPU, s"] = running.usage().cpu - before.cpu
            counts = await cluster.counts() or {}
    return figures | per_request("binding", counts, pairs, "claim")


async def _bind(cluster: BenchCluster, running: Running, count: int) -> float:
    """Create claims; return the time at which the last of them was bound."""
    names = [_name(number) for number in range(count)]
    create = cluster.driver.create
    creating = asyncio.gather(
        *(create(CLAIMS, name, number) for number, name in enumerate(names))
    )
    await checked(creating, running.check)
    return await cluster.driver.until_complete(CLAIMS, {*names}, running.check)


@asynccontextmanager
async def _made(cluster: BenchCluster, count: int) -> AsyncGenerator[None, None]:
    """Make volumes while entered; they belong to no namespace, so delete them."""
    names = [_name(number) for number in range(count)]
    create = cluster.driver.create
    await asyncio.gather(
        *(create(VOLUMES, name, number) for number, name in enumerate(names))
    )
    try:
        yield
    finally:
        if cluster.server is None:
            await asyncio.gather(*(_remove(cluster, name) for name in names))


async def _remove(cluster: BenchCluster, name: str) -> None:
    path = f"{VOLUMES.path}/{name}"
    unprotected = {"metadata": {"finalizers": None}}
    await cluster.driver.call("PATCH", path, unprotected, missing=True)
    await cluster.driver.call("DELETE", path, missing=True)


def _name(number: int) -> str:
    return f"bench-{number:05}"


def _size(number: int) -> str:
    """Return a size; they differ, so that the best volume has to be found."""
    return f"{1 + number % 50}Gi"


def _volume(name: str, number: int) -> JSON:
    return {
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": _size(number)},
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": _CLASS,
            "csi": {"driver": "csi.example.com", "volumeHandle": name},
        },
    }


def _claim(name: str, number: int) -> JSON:
    """Return a claim; for each size there are as many claims as volumes."""
    return {
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": _size(number)}},
            "storageClassName": _CLASS,
        },
    }


def _is_in(phase: str) -> Callable[[JSON], bool]:
    return lambda obj: obj.get("status", {}).get("phase") == phase


_BINDER: Final = "persistentvolume-binder-controller"

VOLUMES: Final = Work(
    _BINDER, "/api/v1/persistentvolumes", _volume, _is_in("Available")
)
CLAIMS: Final = Work(
    _BINDER,
    f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims",
    _claim,
    _is_in("Bound"),
)
