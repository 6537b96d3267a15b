"""A thousand TLS handshakes a second, from a peer that does nothing else."""

import asyncio
import socket
import ssl
from pathlib import Path

import pytest

from tests.robustness.cluster import faulty_cluster
from tests.robustness.daemon import run_daemon
from tests.robustness.objects import deployments, workload
from tests.robustness.situation import now, on_uvloop, seconds_until, until_time
from tests.robustness.test_stalled_loop import probe_until, quantile

pytestmark = pytest.mark.slow

PEER = "127.0.0.2"
RATE = 1000
SECONDS = 12.0
RENEW_DEADLINE = 10.0


def client_hello() -> bytes:
    """Return the first message of a handshake."""
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        tls.wrap_bio(incoming, outgoing).do_handshake()
    return outgoing.read()


async def begin(port: int, hello: bytes) -> bool:
    """Begin a handshake, and leave it; tell whether there was a connection."""
    loop = asyncio.get_running_loop()
    with socket.socket() as sock:
        sock.setblocking(False)  # noqa: FBT003 - its only parameter
        sock.bind((PEER, 0))
        try:
            async with asyncio.timeout(1):
                await loop.sock_connect(sock, ("127.0.0.1", port))
                await loop.sock_sendall(sock, hello)
                await loop.sock_recv(sock, 4096)
        except (OSError, TimeoutError):
            return False
        return True


async def flood(port: int, until: float) -> int:
    """Begin handshakes until a time of the loop; return how many."""
    hello, begun, started = client_hello(), 0, now()
    tasks: set[asyncio.Task[bool]] = set()
    while now() < until:
        # A busy machine is late, so those that are due are made up for.
        for _ in range(int((now() - started) * RATE) - begun):
            task = asyncio.create_task(begin(port, hello))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            begun += 1
        await until_time(min(until, now() + 1 / 50))
    await asyncio.gather(*tasks)
    return begun


@on_uvloop
async def test_a_flood_of_handshakes_costs_neither_lease_nor_probes_nor_pods(
    tmp_path: Path, figures: dict[str, object]
) -> None:
    """Other peers are served, and the controllers work on."""
    async with (
        faulty_cluster() as cluster,
        run_daemon(cluster.kubeconfig, tmp_path) as manager,
    ):
        await manager.until_it_leads()
        before = [took for _, took, _ in await probe_until(manager, now() + 2)]
        began = now()
        flooding = asyncio.create_task(flood(manager.port, began + SECONDS))
        probing = asyncio.create_task(probe_until(manager, began + SECONDS))
        await cluster.create(deployments("default"), workload("web", 3))
        rolled_out = await seconds_until(
            lambda: len(cluster.stored("pods", "default")) == 3, SECONDS
        )
        rate = await flooding / SECONDS
        figures["handshakes a second"] = round(rate)
        answers = await probing
        took = [seconds for _, seconds, _ in answers]
        figures["probe before, median"] = round(quantile(before, 0.5), 4)
        figures["probe during, median"] = round(quantile(took, 0.5), 4)
        figures["probe during, 90 %"] = round(quantile(took, 0.9), 4)
        figures["probe during, longest"] = round(max(took), 4)
        figures["rolled out after"] = rolled_out
        figures["longest without a renewal"] = cluster.longest_without_renewal()
        assert rate > RATE * 0.9
        assert cluster.longest_without_renewal() < RENEW_DEADLINE
        assert {status for *_, status in answers} == {200}
        assert quantile(took, 0.5) < 1.0
        assert rolled_out < SECONDS
        assert manager.is_running
