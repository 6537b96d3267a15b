"""Clusters to measure on: one of our own, or any other."""

import asyncio
import json
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from controller_manager.api.json_objects import JSON
from tests.benchmarks.driver import Driver, DriverError, driver_for


@dataclass
class BenchCluster:
    """A cluster and its driver; `server` is set if it is our own."""

    driver: Driver
    kubeconfig: Path
    server: "asyncio.subprocess.Process | None" = None

    async def counts(self) -> dict[str, int] | None:
        """Return the requests since the last call; `None` if nothing counts them."""
        return await self._order({"do": "counts"}) if self.server else None

    async def storm(self, rate: int, seconds: float) -> JSON:
        """Change the status of pods `rate` times a second; count the changes."""
        if self.server is None:
            msg = "watch-storm needs the cluster of its own; leave out --kubeconfig"
            raise DriverError(msg)
        return await self._order({"do": "storm", "rate": rate, "seconds": seconds})

    async def copy_workload(self, name: str, count: int, nodes: int) -> None:
        """Copy a settled workload so often; spread the pods over so many nodes."""
        order = {"do": "copy workload", "name": name, "count": count, "nodes": nodes}
        await self._order(order)

    async def refuse_next(self, resource: str, name: str) -> None:
        """Refuse the next update or patch of an object, with 409."""
        await self._order({"do": "conflict", "resource": resource, "name": name})

    async def lose_watches(self, ending: str, config_map: str) -> None:
        """End all watches, and delete a config map before anybody watches again."""
        order = {"do": "lose watches", "ending": ending, "config_map": config_map}
        await self._order(order)

    async def _order(self, order: JSON) -> JSON:
        server = self.server
        assert server is not None
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps(order).encode() + b"\n")
        await server.stdin.drain()
        answer: JSON = json.loads(await server.stdout.readline())
        return answer


@asynccontextmanager
async def cluster_for(
    kubeconfig: Path | None, idle_pods: int, nodes: int = 3
) -> AsyncGenerator[BenchCluster, None]:
    """Yield the cluster of `kubeconfig`, or one of our own, with idle pods in it.

    Our own also has `nodes` nodes.
    """
    if kubeconfig is not None:
        async with driver_for(kubeconfig) as driver:
            if not (await driver.call("GET", "/api/v1/nodes?limit=1"))["items"]:
                msg = "the cluster of --kubeconfig has no nodes to run pods"
                raise DriverError(msg)
            await driver.fill(idle_pods)
            try:
                yield BenchCluster(driver, kubeconfig)
            finally:
                await driver.call("DELETE", "/api/v1/namespaces/bench", missing=True)
        return
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "kubeconfig"
        words = ("-m", "tests.benchmarks.server", f"--kubeconfig={path}")
        server = await asyncio.create_subprocess_exec(
            sys.executable,
            *words,
            f"--idle-pods={idle_pods}",
            f"--nodes={nodes}",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            while not path.exists():
                if server.returncode is not None:
                    msg = "the development cluster has not started"
                    raise DriverError(msg)
                await asyncio.sleep(0.05)
            async with driver_for(path) as driver:
                yield BenchCluster(driver, path, server)
        finally:
            if server.stdin is not None:
                server.stdin.close()
            try:
                await asyncio.wait_for(server.wait(), 10)
            except TimeoutError:
                server.kill()
                await server.wait()
