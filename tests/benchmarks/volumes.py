"""Benchmark of volumes: as many claims are bound as there are volumes."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final

from tests.benchmarks.clusters import BenchCluster, cluster_for
from tests.benchmarks.contenders import Contender
from tests.benchmarks.driver import checked
from tests.benchmarks.measuring import SETTLE, Figures, Options, per_request
from tests.benchmarks.server import NAMESPACE

JSON = dict[str, Any]

_CLASS: Final = "bench"
"""The class of both; nobody provisions volumes of it."""

_VOLUMES: Final = "/api/v1/persistentvolumes"
_CLAIMS: Final = f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims"
_MINE: Final = f"{_VOLUMES}?labelSelector=bench=volumes"


async def volumes(contender: Contender, options: Options) -> Figures:
    """Make volumes available, then bind a claim to each of them."""
    contender = contender.running_only("persistentvolume-binder-controller")
    pairs = options.claims
    log = options.logs / f"{contender.name}.log"
    async with cluster_for(options.kubeconfig, 0) as cluster, _made(cluster, pairs):
        await cluster.counts()
        started = time.monotonic()
        with contender.running(cluster.kubeconfig, log) as running:
            await checked(_until(cluster, _MINE, "Available", pairs), running.check)
            figures = {
                "volumes: wall, s": time.monotonic() - started,
                "volumes: CPU, s": running.usage().cpu,
            }
            await asyncio.sleep(SETTLE)
            await cluster.counts()
            before, started = running.usage(), time.monotonic()
            bodies = [_claim(number) for number in range(pairs)]
            post = cluster.driver.call
            creating = asyncio.gather(*(post("POST", _CLAIMS, body) for body in bodies))
            await checked(creating, running.check)
            await checked(_until(cluster, _CLAIMS, "Bound", pairs), running.check)
            figures["claims: wall, s"] = time.monotonic() - started
            figures["claims: CPU, s"] = running.usage().cpu - before.cpu
            counts = await cluster.counts() or {}
    return figures | per_request("binding", counts, pairs, "claim")


@asynccontextmanager
async def _made(cluster: BenchCluster, count: int) -> AsyncGenerator[None, None]:
    """Make volumes while entered; they belong to no namespace, so delete them."""
    call = cluster.driver.call
    bodies = [_volume(number) for number in range(count)]
    await asyncio.gather(*(call("POST", _VOLUMES, body) for body in bodies))
    try:
        yield
    finally:
        if cluster.server is None:
            await asyncio.gather(*(_remove(cluster, each) for each in bodies))


async def _remove(cluster: BenchCluster, volume: JSON) -> None:
    path = f"{_VOLUMES}/{volume['metadata']['name']}"
    unprotected = {"metadata": {"finalizers": None}}
    await cluster.driver.call("PATCH", path, unprotected, missing=True)
    await cluster.driver.call("DELETE", path, missing=True)


def _volume(number: int) -> JSON:
    """Return a volume; sizes differ, so the best one has to be found."""
    name = f"bench-{number:05}"
    return {
        "metadata": {"name": name, "labels": {"bench": "volumes"}},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": f"{1 + number % 50}Gi"},
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": _CLASS,
            "csi": {"driver": "csi.example.com", "volumeHandle": name},
        },
    }


def _claim(number: int) -> JSON:
    """Return a claim; for each size there are as many claims as volumes."""
    return {
        "metadata": {"name": f"claim-{number:05}"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": f"{1 + number % 50}Gi"}},
            "storageClassName": _CLASS,
        },
    }


async def _until(cluster: BenchCluster, path: str, phase: str, wanted: int) -> None:
    """Wait until this number of objects is in a phase."""
    while True:
        found = await cluster.driver.call("GET", path)
        phases = [each.get("status", {}).get("phase") for each in found["items"]]
        if phases.count(phase) == wanted:
            return
        await asyncio.sleep(0.5)
