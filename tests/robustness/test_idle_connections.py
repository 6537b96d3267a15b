"""Seven hundred and fifty idle connections, with a limit of 256 open files."""

import asyncio
import math
import ssl
from collections import Counter
from pathlib import Path

import pytest

from tests.robustness.cluster import FaultyCluster, faulty_cluster
from tests.robustness.daemon import Daemon, run_daemon
from tests.robustness.objects import deployments, workload
from tests.robustness.situation import now, on_uvloop, seconds_until, until_time

pytestmark = pytest.mark.nightly

FILES = 256
CONNECTIONS = 750
LATER = 250
"""Connections that come after the daemon's own connections were cut."""

AT_ONCE = 25
PACE = 0.1
PATIENCE = 45.0
"""Seconds until every idle connection must be closed.

The header of a request may take 32 s, as upstream; the rest is for the machine.
"""

RENEW_DEADLINE = 10.0

HALF_A_HELLO = bytes.fromhex("1603010200010001fc0303") + bytes(64)
HALF_A_HEADER = b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: id"


class Flood:
    """Idle connections of three kinds, and a count of how they ended."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._tls = ssl.create_default_context()
        self._tls.check_hostname = False
        self._tls.verify_mode = ssl.CERT_NONE
        self.ends: Counter[str] = Counter()
        """The number of connections that were refused, or closed by the daemon."""
        self._tasks: list[asyncio.Task[None]] = []

    async def begin(self, count: int) -> None:
        """Open connections within seconds; each stays open until it is closed.

        They do not all open at once: the kernel holds some hundred connections that
        are not accepted yet, and the daemon would never see the others.
        """
        sent = ((None, b""), (None, HALF_A_HELLO), (self._tls, HALF_A_HEADER))
        for number in range(count):
            task = asyncio.create_task(self._connect(*sent[number % len(sent)]))
            self._tasks.append(task)
            if number % AT_ONCE == AT_ONCE - 1:
                await asyncio.sleep(PACE)

    async def _connect(self, tls: ssl.SSLContext | None, data: bytes) -> None:
        try:
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", self._port, ssl=tls
            )
        except OSError:
            self.ends["refused"] += 1
            return
        try:
            writer.write(data)
            while await reader.read(1024):
                continue
        except OSError:
            pass  # A reset is one way to close, and is counted as one.
        finally:
            writer.transport.abort()
        self.ends["closed"] += 1

    async def end(self) -> None:
        """Close the connections that are still open."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def probe(manager: Daemon, until: float) -> list[tuple[float, int]]:
    """Send GET /livez once a second; return the time and status of each answer."""
    answers = []
    while (asked_at := now()) < until:
        status, _ = await manager.get("/livez", limit=2)
        answers.append((asked_at, status))
        await until_time(asked_at + 1)
    return answers


async def rolled_out_after(cluster: FaultyCluster, name: str) -> float:
    """Create a deployment; return the seconds until its pods exist."""
    before = len(cluster.stored("pods", "default"))
    await cluster.create(deployments("default"), workload(name, 3))
    return await seconds_until(
        lambda: len(cluster.stored("pods", "default")) == before + 3, PATIENCE / 3
    )


def answered_from(answers: list[tuple[float, int]]) -> float:
    """Return when the last unbroken series of answers began, infinity for none."""
    since = math.inf
    for at, status in reversed(answers):
        if status != 200:
            break
        since = at
    return since


@on_uvloop
async def test_connections_that_say_nothing_cost_neither_the_lease_nor_the_endpoints(
    tmp_path: Path, figures: dict[str, object]
) -> None:
    async with (
        faulty_cluster() as cluster,
        run_daemon(cluster.kubeconfig, tmp_path, files=(FILES, FILES)) as manager,
    ):
        await manager.until_it_leads()
        flood = Flood(manager.port)
        began = now()
        try:
            await flood.begin(CONNECTIONS - LATER)
            probing = asyncio.create_task(probe(manager, began + PATIENCE))
            rollouts = [await rolled_out_after(cluster, "first")]
            # The daemon must open its connections again while others come.
            cluster.cut_connections()
            await flood.begin(LATER)
            await until_time(began + PATIENCE - 10)
            rollouts.append(await rolled_out_after(cluster, "second"))
            answers = await probing
            ended = sum(flood.ends.values())
        finally:
            await flood.end()
        figures["rolled out after"] = rollouts
        figures["/livez answers"] = dict(Counter(status for _, status in answers))
        figures["/livez answers for good after"] = answered_from(answers) - began
        figures["connections ended"] = dict(flood.ends)
        figures["longest without a renewal"] = cluster.longest_without_renewal()
        figures["daemon is running"] = manager.is_running
        assert manager.is_running
        assert cluster.longest_without_renewal() < RENEW_DEADLINE
        assert max(rollouts) < 10
        assert answered_from(answers) - began < PATIENCE - 5
        assert ended == CONNECTIONS
