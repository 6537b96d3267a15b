"""TLS handshakes: one peer cannot take the time of all others."""

import asyncio
import ssl
import threading
import time

import pytest

from controller_manager.clock import LoopClock
from controller_manager.serving.handshakes import HandshakeLimiter, TooManyHandshakes
from controller_manager.serving.limits import ConnectionLimits
from tests.clusters import EPOCH
from tests.serving.servers import trusting
from tests.serving.test_flood import Flooded, both_loops, flooded

FLOOD_SECONDS = 3.0


@pytest.fixture
def limiter() -> HandshakeLimiter:
    return HandshakeLimiter(ConnectionLimits(), LoopClock(EPOCH))


def admitted(limiter: HandshakeLimiter, address: str, count: int) -> list[float]:
    """Return the waits of as many of `count` connections as are admitted."""
    waits = []
    for _ in range(count):
        try:
            waits.append(limiter.admit(address))
        except TooManyHandshakes:
            break
    return waits


@pytest.mark.looptime
async def test_a_peer_has_a_hundred_handshakes_a_second(
    limiter: HandshakeLimiter,
) -> None:
    """After a burst of twenty they wait up to one second; further ones are refused."""
    waits = admitted(limiter, "192.0.2.1", 1000)
    assert waits == pytest.approx([0.0] * 20 + [n / 100 for n in range(1, 101)])
    await asyncio.sleep(0.5)
    assert admitted(limiter, "192.0.2.1", 1000) == pytest.approx(
        [0.51 + n / 100 for n in range(50)]
    )


@pytest.mark.looptime
async def test_a_peer_that_asks_for_too_many_delays_no_other(
    limiter: HandshakeLimiter,
) -> None:
    """Not by its own rate, and not by the rate of all: that is twice a peer's."""

    async def begin(wait: float) -> float:
        await asyncio.sleep(wait)
        return limiter.admit_to_all()

    tasks = []
    for _ in range(300):
        waits = admitted(limiter, "192.0.2.1", 1000)
        tasks += [asyncio.create_task(begin(wait)) for wait in waits]
        await asyncio.sleep(0.1)
        assert (limiter.admit("192.0.2.2"), limiter.admit_to_all()) == (0, 0)
    begun = await asyncio.gather(*tasks)
    assert (len(begun), max(begun)) == (20 + 100 + 299 * 10, 0)


@pytest.mark.looptime
async def test_all_peers_together_have_two_hundred_a_second(
    limiter: HandshakeLimiter,
) -> None:
    """With any addresses."""
    waits = []
    for number in range(240):
        assert limiter.admit(f"192.0.2.{number}") == 0
        waits.append(limiter.admit_to_all())
    assert limiter.admit("192.0.2.240") == 0
    with pytest.raises(TooManyHandshakes):
        limiter.admit_to_all()
    assert waits == pytest.approx([0.0] * 40 + [n / 200 for n in range(1, 201)])


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("first", "second", "is_one"),
    [
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("fe80::1%eth0", "fe80::2%eth1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.2", False),
    ],
)
async def test_addresses_of_one_machine_are_one_peer(
    limiter: HandshakeLimiter, first: str, second: str, is_one: bool
) -> None:
    """It may use a whole IPv6 network; a listener of both families maps IPv4."""
    assert len(admitted(limiter, first, 1000)) == 120
    assert (admitted(limiter, second, 1) == []) is is_one


@pytest.mark.looptime
async def test_peers_are_forgotten_once_they_may_do_as_much_as_new_ones(
    limiter: HandshakeLimiter,
) -> None:
    """Nothing is remembered of a thousand peers, but of one that waits."""
    admitted(limiter, "192.0.2.1", 1000)
    for number in range(1000):
        limiter.admit(f"198.51.{number // 250}.{number % 250}")
    assert limiter.peers == 1001
    await asyncio.sleep(1)
    assert limiter.admit("203.0.113.1") == 0
    assert limiter.peers == 1002  # the one that waits is first in the order
    await asyncio.sleep(0.3)
    assert limiter.admit("203.0.113.1") == 0
    assert limiter.peers == 1


class Flooder(threading.Thread):
    """Opens TLS connections one after the other, as fast as it can."""

    def __init__(self, server: Flooded, until: float) -> None:
        super().__init__()
        self._server = server
        self._until = until
        self._tls = trusting()
        self.made = 0

    def run(self) -> None:
        while time.monotonic() < self._until:
            try:
                with (
                    self._server.connect_from("127.0.0.2") as plain,
                    self._tls.wrap_socket(plain),
                ):
                    self.made += 1
            except (OSError, ssl.SSLError):
                continue


@both_loops
@pytest.mark.slow
def test_a_peer_that_floods_the_server_gets_no_more_than_its_rate(loop: str) -> None:
    """While another peer is answered at once."""
    answers, seconds = [], []
    with flooded(loop, 4096) as server:
        until = time.monotonic() + FLOOD_SECONDS
        flooders = [Flooder(server, until) for _ in range(8)]
        for each in flooders:
            each.start()
        while time.monotonic() < until:
            began = time.monotonic()
            answers.append(server.livez())
            seconds.append(time.monotonic() - began)
            time.sleep(0.2)
        for each in flooders:
            each.join()
    assert set(answers) == {"HTTP/1.0 200 OK"}
    assert max(seconds) < 2
    assert sum(each.made for each in flooders) < 100 * (FLOOD_SECONDS + 1) + 20
