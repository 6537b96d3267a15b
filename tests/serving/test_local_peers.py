"""The peers on this machine: strangers do not use up their handshakes."""

import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path

import aiohttp
import pytest

from controller_manager.clock import LoopClock
from controller_manager.options.config import ServingConfig
from controller_manager.serving.handshakes import HandshakeLimiter, TooManyHandshakes
from controller_manager.serving.limits import ConnectionLimits
from controller_manager.serving.local_peers import LocalPeers, node_addresses
from tests.clusters import EPOCH
from tests.serving.servers import config_of, serving, trusting
from tests.serving.test_flood import flooded

USED_UP = replace(
    ConnectionLimits(), all_handshakes=1e-6, handshake_burst=1, peer_handshakes=1000.0
)
"""All peers together have two handshakes, and then none for days."""

IPV4_ROUTES = """\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t{gateway}\t0003\t0\t0\t0\t00000000\t0\t0\t0
eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
tun0\t00000000\t00000000\t0001\t0\t0\t0\t00000000\t0\t0\t0
"""
IPV6_ROUTES = f"""\
fd{"0" * 30} 40 {"0" * 32} 00 {"0" * 32} 00000100 00000001 00000000 00000001     eth0
{"0" * 32} 00 {"0" * 32} 00 fd{"0" * 29}1 00000400 00000002 00000000 00000003     eth0
{"0" * 32} 00 {"0" * 32} 00 {"0" * 32} ffffffff 00000001 00000000 00200200       lo
"""


def own_addresses() -> Iterator[str]:
    """Yield the addresses of this machine that lead to others; there may be none."""
    for family, other in ((socket.AF_INET, "192.0.2.77"), (socket.AF_INET6, "2001::1")):
        with socket.socket(family, socket.SOCK_DGRAM) as unused:
            try:
                unused.connect((other, 9))
            except OSError:
                continue
            yield unused.getsockname()[0]


async def answers(port: int, host: str, count: int) -> list[int]:
    """Ask on as many new connections; 0 stands for one that was closed."""
    found = []
    url = f"https://[{host}]:{port}/livez" if ":" in host else ""
    for _ in range(count):
        async with aiohttp.ClientSession() as session:
            try:
                async with session.get(
                    url or f"https://{host}:{port}/livez", ssl=trusting()
                ) as answer:
                    found.append(answer.status)
            except aiohttp.ClientError:
                found.append(0)
    return found


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", *own_addresses()])
async def test_a_local_peer_is_answered_when_strangers_used_up_all_handshakes(
    host: str,
) -> None:
    """On loopback, and on the addresses of the machine; the listener maps IPv4."""
    every = ServingConfig(port=0, bind_address="::")
    async with serving(config_of(serving=every), limits=USED_UP) as url:
        port = int(url.rpartition(":")[2])
        assert await answers(port, host, 6) == [200] * 6


async def test_a_stranger_is_refused_when_strangers_used_up_all_handshakes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The common budget holds for all others as before."""
    monkeypatch.setattr(LocalPeers, "has", lambda *_: False)
    async with serving(limits=USED_UP) as url:
        port = int(url.rpartition(":")[2])
        assert await answers(port, "127.0.0.1", 4) == [200, 200, 0, 0]


@pytest.mark.parametrize(
    ("peer", "own", "is_local"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("127.9.9.9", "127.0.0.1", True),
        ("::ffff:127.0.0.1", "::ffff:127.0.0.1", True),
        ("::1", "::1", True),
        ("198.51.100.1", "198.51.100.1", True),
        ("::ffff:198.51.100.1", "::ffff:198.51.100.1", True),
        ("2001:db8::1", "2001:db8::1", True),
        ("fe80::1%eth0", "fe80::1%eth0", True),
        ("198.51.100.1", "127.0.0.1", True),
        ("198.51.100.7", "198.51.100.1", True),
        ("::ffff:198.51.100.7", "::ffff:198.51.100.1", True),
        ("fe80::7%eth0", "fe80::1%eth0", True),
        ("198.51.100.2", "198.51.100.1", False),
        ("::ffff:198.51.100.2", "::ffff:198.51.100.1", False),
        ("2001:db8::2", "2001:db8::1", False),
        ("fe80::2%eth0", "fe80::1%eth0", False),
    ],
)
def test_the_peers_on_this_machine_and_the_node_of_the_pod_are_local(
    peer: str, own: str, is_local: bool
) -> None:
    """The node of the pod is told by its addresses, the machine by the connection."""
    node = [ip_address("198.51.100.7"), ip_address("fe80::7")]
    assert LocalPeers(node).has(peer, own) is is_local


def test_a_second_address_of_this_machine_is_local() -> None:
    """The peer may have bound its socket to another interface."""
    assert [LocalPeers().has(each, "198.51.100.1") for each in own_addresses()] == [
        True for _ in own_addresses()
    ]


def test_the_node_of_a_pod_is_found_by_environment_and_routes(tmp_path: Path) -> None:
    """Text that is no address is left out, and so is a table that is absent."""
    number = int.from_bytes(bytes([10, 244, 1, 1]), "little")
    (tmp_path / "route").write_text(IPV4_ROUTES.format(gateway=f"{number:08X}"))
    (tmp_path / "ipv6_route").write_text(IPV6_ROUTES)
    environment = {"HOST_IPS": "198.51.100.7,2001:db8::7, ::ffff:198.51.100.8,node"}
    texts = ("198.51.100.7", "198.51.100.8", "10.244.1.1", "2001:db8::7", "fd00::1")
    assert node_addresses(environment, tmp_path) == {ip_address(each) for each in texts}
    assert node_addresses({}, tmp_path / "absent") == set()


@pytest.mark.looptime
async def test_loopback_has_two_peers_however_many_addresses_are_used() -> None:
    """A program of this machine takes no memory and little time with all of them."""
    limiter = HandshakeLimiter(ConnectionLimits(), LoopClock(EPOCH))
    admitted = 0
    for number in range(1000):
        try:
            limiter.admit(f"127.0.{number // 250}.{number % 250 + 2}", is_local=True)
        except TooManyHandshakes:
            continue
        admitted += 1
    assert (admitted, limiter.peers) == (120, 1)
    assert limiter.admit("127.0.0.1", is_local=True) == 0
    assert limiter.peers == 2


@pytest.mark.looptime
async def test_others_of_its_network_do_not_use_up_the_rate_of_the_node() -> None:
    """Other machines have addresses of the same IPv6 network."""
    limiter = HandshakeLimiter(ConnectionLimits(), LoopClock(EPOCH))
    for _ in range(120):
        limiter.admit("2001:db8::2")
    with pytest.raises(TooManyHandshakes):
        limiter.admit("2001:db8::3")
    assert limiter.admit("2001:db8::1", is_local=True) == 0


def client_hello() -> bytes:
    """Return the first message of a handshake."""
    outgoing = ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        trusting().wrap_bio(ssl.MemoryBIO(), outgoing).do_handshake()
    return outgoing.read()


def begin(port: int, number: int, hello: bytes) -> socket.socket:
    """Begin a handshake as one of five peers, and wait for nothing."""
    sock = socket.socket()
    sock.setblocking(False)  # noqa: FBT003 - its only parameter
    sock.bind((f"127.0.0.{number % 5 + 2}", 0))
    with suppress(BlockingIOError):
        sock.connect(("127.0.0.1", port))
    with suppress(OSError):
        sock.sendall(hello)
    return sock


class Strangers(threading.Thread):
    """Five peers that begin 120 connections a second each, and answer nothing."""

    def __init__(self, port: int, until: float) -> None:
        super().__init__()
        self._port = port
        self._until = until

    def run(self) -> None:
        hello, began, count = client_hello(), time.monotonic(), 0
        opened: deque[socket.socket] = deque()
        while (now := time.monotonic()) < self._until:
            for _ in range(int((now - began) * 600) - count):
                opened.append(begin(self._port, count, hello))
                count += 1
            while len(opened) > 400:
                opened.popleft().close()
            time.sleep(1 / 100)
        for each in opened:
            each.close()


@pytest.mark.slow
def test_five_peers_that_begin_120_connections_a_second_stop_no_probe() -> None:
    """The kubelet's probe is answered each time."""
    with flooded("uvloop", 4096) as server:
        until = time.monotonic() + 5
        strangers = Strangers(server.port, until)
        strangers.start()
        found = []
        while time.monotonic() < until:
            try:
                found.append(server.livez())
            except OSError as error:
                found.append(str(error))
            time.sleep(0.1)
        strangers.join()
    assert set(found) == {"HTTP/1.0 200 OK"}
