"""TLS of one connection, with peers that are slow, silent, or send garbage."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from OpenSSL import SSL

from controller_manager.observability.logs import silent_logger
from controller_manager.options.config import ServingConfig
from controller_manager.serving.certificates import Certificates
from controller_manager.serving.limits import ConnectionLimits
from controller_manager.serving.tls import HandshakeError, TLSProtocol

pytestmark = pytest.mark.looptime

LIMITS = ConnectionLimits()


def now() -> float:
    return asyncio.get_running_loop().time()


class Wire(asyncio.Transport):
    """A TCP transport to a peer that a test plays."""

    def __init__(self, deliver: Callable[[bytes], None]) -> None:
        super().__init__()
        self.deliver = deliver
        self.closed_at: float | None = None
        self.protocol: asyncio.Protocol | None = None

    def write(self, data: Any) -> None:
        self.deliver(bytes(data))

    def is_closing(self) -> bool:
        return self.closed_at is not None

    def close(self) -> None:
        if self.closed_at is None:
            self.closed_at = now()
            assert self.protocol is not None
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)

    abort = close

    def pause_reading(self) -> None:
        """Go on: what this peer sends is there at once."""

    resume_reading = pause_reading


class Application(asyncio.Protocol):
    """Records the calls."""

    def __init__(self) -> None:
        self.told: list[object] = []
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.told.append("made")

    def data_received(self, data: bytes) -> None:
        self.told.append(data)

    def eof_received(self) -> None:
        self.told.append("end")

    def connection_lost(self, _: BaseException | None) -> None:
        self.told.append("lost")


class Peer:
    """A client of TLS, and the server's side of its connection."""

    def __init__(self) -> None:
        self.tls = SSL.Connection(SSL.Context(SSL.TLS_CLIENT_METHOD), None)
        self.tls.set_connect_state()
        self.application = Application()
        settings = Certificates(
            ServingConfig(), lambda: b"", wants_clients=False, logger=silent_logger()
        )
        self.server = TLSProtocol(settings.for_connection(), self.application, LIMITS)
        self.wire = Wire(self._take)
        self.wire.protocol = self.server
        self.server.connection_made(self.wire)
        self.got = b""

    def _take(self, data: bytes) -> None:
        self.got += data
        self.tls.bio_write(data)

    def send(self) -> None:
        """Send what TLS has to send."""
        with suppress(SSL.WantReadError):
            self.server.data_received(self.tls.bio_read(65536))

    def shake_hands(self) -> None:
        for _ in range(3):
            with suppress(SSL.WantReadError):
                self.tls.do_handshake()
            self.send()

    @property
    def transport(self) -> asyncio.Transport:
        assert self.application.transport is not None
        return self.application.transport


async def test_data_goes_both_ways() -> None:
    """Once the handshake is over."""
    peer = Peer()
    assert peer.application.told == []
    peer.shake_hands()
    await peer.server.handshaken
    peer.tls.sendall(b"question")
    peer.send()
    answer = b"a" * 1_000_000
    peer.transport.write(answer)
    got = b""
    with suppress(SSL.WantReadError):
        while True:
            got += peer.tls.recv(65536)
    assert (peer.application.told, got) == (["made", b"question"], answer)


async def test_a_handshake_ends_after_its_time() -> None:
    """If the peer is silent, and if it sends a byte now and then."""
    peer = Peer()
    began = now()
    peer.server.data_received(b"\x16")
    with pytest.raises(HandshakeError, match="no handshake within 10 s"):
        await peer.server.handshaken
    assert (peer.wire.closed_at, peer.application.told) == (began + 10, [])


async def test_garbage_ends_the_handshake_with_an_alert() -> None:
    """The application is told nothing."""
    peer = Peer()
    peer.server.data_received(b"GET / HTTP/1.1\r\n\r\n")
    with pytest.raises(HandshakeError, match="http request"):
        await peer.server.handshaken
    assert peer.wire.closed_at == now()
    peer = Peer()
    peer.server.data_received(b"\x16\x03\x01\x00\x04\xff\xff\xff\xff")
    with pytest.raises(HandshakeError):
        await peer.server.handshaken
    assert peer.got[:1] == b"\x15"
    assert peer.application.told == []


async def test_a_peer_that_leaves_ends_the_handshake() -> None:
    """With or without closing first."""
    for leave in (TLSProtocol.eof_received, lambda it: it.connection_lost(None)):
        peer = Peer()
        leave(peer.server)
        with pytest.raises(HandshakeError, match="the "):
            await peer.server.handshaken
        assert peer.application.told == []


async def test_the_end_of_a_connection_is_confirmed_or_forced() -> None:
    """By TLS closure, for which a silent peer gets two seconds."""
    peer = Peer()
    peer.shake_hands()
    began = now()
    peer.transport.close()
    peer.transport.write(b"too late")
    with pytest.raises(SSL.ZeroReturnError):
        peer.tls.recv(100)
    peer.tls.shutdown()
    peer.send()
    assert peer.wire.closed_at == began
    await asyncio.sleep(0)
    assert peer.application.told == ["made", "lost"]
    silent = Peer()
    silent.shake_hands()
    silent.transport.close()
    await asyncio.sleep(5)
    assert silent.wire.closed_at == began + LIMITS.closing
    assert silent.application.told == ["made", "lost"]


async def test_the_peers_closure_ends_the_connection() -> None:
    """With the server's own closure."""
    peer = Peer()
    peer.shake_hands()
    peer.tls.shutdown()
    peer.send()
    with pytest.raises(SSL.ZeroReturnError):
        peer.tls.recv(100)
    await asyncio.sleep(0)
    assert peer.application.told == ["made", "end", "lost"]


async def test_a_paused_application_gets_nothing() -> None:
    """And then everything, in order, although it has been decrypted only later."""
    peer = Peer()
    peer.shake_hands()
    peer.transport.pause_reading()
    for data in (b"first", b"second"):
        peer.tls.sendall(data)
        peer.send()
    assert peer.application.told == ["made"]
    peer.transport.resume_reading()
    await asyncio.sleep(0)
    assert peer.application.told == ["made", b"first", b"second"]


async def test_a_forged_record_ends_the_connection() -> None:
    """At once: what follows it cannot be trusted."""
    peer = Peer()
    peer.shake_hands()
    peer.server.data_received(b"\x17\x03\x03\x00\x14" + b"x" * 20)
    await asyncio.sleep(0)
    assert peer.wire.closed_at == now()
    assert peer.application.told == ["made", "lost"]


async def test_a_connection_that_is_given_up_leaves_no_failure_behind() -> None:
    """The one that waits for the handshake is cancelled."""
    peer = Peer()
    peer.server.abort()
    await asyncio.sleep(0)
    assert peer.server.handshaken.cancelled()
    assert peer.application.told == []
