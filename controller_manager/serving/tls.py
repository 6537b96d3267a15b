"""TLS of one connection: between a TCP transport and the protocol of HTTP.

The ssl module ends the handshake if a client certificate does not verify. Upstream
(Go's tls.RequestClientCert) goes on, so that a bearer token still counts, and names
the authorities that it accepts. pyOpenSSL can do both.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, cast

from cryptography.hazmat.primitives.serialization import Encoding
from OpenSSL import SSL, crypto

from controller_manager.serving.limits import ConnectionLimits

CLIENT: Final = "client_certificate"
"""The name of the transport's extra information: a `ClientCertificate`."""

_RECORD: Final = 16 * 1024
_PART: Final = 64 * 1024
"""Bytes that are encrypted, then sent; OpenSSL copies them once more as they grow."""


class HandshakeError(OSError):
    """The handshake failed; the message says why."""


@dataclass(slots=True)
class ClientCertificate:
    """The certificate that a client has sent, and the result of its verification."""

    is_foreign: bool = False
    """True if it sent a certificate that does not verify."""

    chain: list[bytes] = field(default_factory=list)
    """The verified chain as DER, from the client to the authority; may be empty."""


def ask_clients(context: SSL.Context) -> None:
    """Ask each client for a certificate, and go on if there is none, or a foreign one.

    A connection of the settings `context` needs `TLSProtocol`.
    """
    context.set_verify(SSL.VERIFY_PEER, _note_foreign)


def _note_foreign(
    tls: SSL.Connection, _: crypto.X509, __: int, ___: int, passed: int
) -> bool:
    """Note a certificate that does not verify, and go on with the handshake."""
    client = tls.get_app_data()
    if not passed and isinstance(client, ClientCertificate):
        client.is_foreign = True
        return True
    return bool(passed)


class TLSProtocol(asyncio.Protocol):
    """Does the handshake of one connection, then encrypts and decrypts.

    The protocol of the application gets a `TLSTransport` once the handshake is over.
    Nothing is called on it before, nor after `connection_lost`.
    """

    def __init__(
        self,
        tls: SSL.Connection,
        protocol: asyncio.Protocol,
        limits: ConnectionLimits,
    ) -> None:
        """Take a connection of pyOpenSSL that has no socket, and the application."""
        self.protocol = protocol
        self.client = ClientCertificate()
        tls.set_app_data(self.client)
        self.is_closing = False
        self.is_paused = False
        self._tls = tls
        self._limits = limits
        self._is_made = False
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._tcp: asyncio.Transport | None = None
        self.handshaken: asyncio.Future[None] = self._loop.create_future()
        """Done once the handshake is over; fails with an OSError."""

    # Callbacks of asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the client's hello."""
        self._tcp = cast(asyncio.Transport, transport)
        self._wait(self._limits.handshake, self._time_out)

    def data_received(self, data: bytes) -> None:
        """Take encrypted data."""
        self._tls.bio_write(data)
        if not self._is_made:
            self._shake_hands()
        if self._is_made:
            self.read()

    def eof_received(self) -> None:
        """End the connection: the peer sends no more."""
        if not self._is_made:
            self._fail("the peer has closed the connection")
        elif not self.is_closing:
            self.protocol.eof_received()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Tell the application."""
        self._stop_waiting()
        self._tcp = None
        if self._is_made:
            self._is_made = False
            self.protocol.connection_lost(cast("Exception | None", exc))
        else:
            self._fail("the connection was lost")

    def pause_writing(self) -> None:
        """Pass on that the peer does not read."""
        if self._is_made:
            self.protocol.pause_writing()

    def resume_writing(self) -> None:
        """Pass on that the peer reads again."""
        if self._is_made:
            self.protocol.resume_writing()

    # The handshake.

    def _shake_hands(self) -> None:
        try:
            self._tls.do_handshake()
        except SSL.WantReadError:
            self._flush()
        except SSL.Error as error:
            self._flush()  # the alert
            self._fail(_reason(error))
        else:
            self._flush()
            self._shook_hands()

    def _shook_hands(self) -> None:
        self._stop_waiting()
        if not self.client.is_foreign:
            chain = self._tls.get_verified_chain(as_cryptography=True) or []
            self.client.chain = [each.public_bytes(Encoding.DER) for each in chain]
        if self._tcp is not None and not self.handshaken.done():
            self._is_made = True
            self.protocol.connection_made(TLSTransport(self, self._tcp))
            self.handshaken.set_result(None)

    def _time_out(self) -> None:
        self._fail(f"no handshake within {self._limits.handshake:g} s")

    def _fail(self, why: str) -> None:
        self.is_closing = True
        if not self.handshaken.done():
            self.handshaken.set_exception(HandshakeError(why))
        self._close_tcp()

    # Methods that the transport calls.

    def read(self) -> None:
        """Pass on the data that can be decrypted, unless the application has paused."""
        try:
            while self._tcp is not None and not self.is_paused:
                data = self._tls.recv(_RECORD)
                if not self.is_closing:
                    self.protocol.data_received(data)
        except SSL.WantReadError:
            pass
        except SSL.ZeroReturnError:
            self._ended_by_peer()
            return
        except SSL.Error:
            self.abort()
            return
        self._flush()

    def _ended_by_peer(self) -> None:
        if not self.is_closing:
            self.protocol.eof_received()
            self.close()
        self._close_tcp()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Encrypt and send data."""
        if self.is_closing or self._tcp is None:
            return
        try:
            for start in range(0, len(data), _PART):
                self._tls.sendall(memoryview(data)[start : start + _PART])
                self._flush()
        except SSL.Error:
            self.abort()

    def close(self) -> None:
        """Send the remaining data, then end the connection, with TLS closure."""
        if self.is_closing or self._tcp is None:
            return
        self.is_closing = True
        self.is_paused = False
        try:
            self._tls.shutdown()
        except SSL.Error:
            self.abort()
            return
        self._flush()
        self._tcp.resume_reading()  # for the peer's closure
        self._wait(self._limits.closing, self.abort)

    def abort(self) -> None:
        """End the connection at once."""
        self.is_closing = True
        self.handshaken.cancel()
        if self._tcp is not None:
            self._tcp.abort()

    def _close_tcp(self) -> None:
        if self._tcp is not None:
            self._wait(self._limits.closing, self.abort)
            self._tcp.close()

    def _flush(self) -> None:
        try:
            while self._tcp is not None:
                self._tcp.write(self._tls.bio_read(_PART))
        except SSL.WantReadError:
            return

    def _wait(self, seconds: float, then: Callable[[], None]) -> None:
        self._stop_waiting()
        self._timer = self._loop.call_later(seconds, then)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class TLSTransport(asyncio.Transport):
    """The transport of the application's protocol."""

    def __init__(self, tls: TLSProtocol, tcp: asyncio.Transport) -> None:
        """Take the two sides."""
        extra = {"sslcontext": tls, CLIENT: tls.client}
        super().__init__(extra)
        self._tls = tls
        self._tcp = tcp

    def get_extra_info(self, name: str, default: Any = None) -> Any:  # noqa: ANN401
        """Return information about TLS, or about the TCP connection."""
        found = super().get_extra_info(name)
        return self._tcp.get_extra_info(name, default) if found is None else found

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Encrypt and send data; the TCP transport buffers it."""
        self._tls.write(data)

    def is_closing(self) -> bool:
        """Tell whether the connection is closed, or being closed."""
        return self._tls.is_closing or self._tcp.is_closing()

    def close(self) -> None:
        """Send the remaining data, then close the connection."""
        self._tls.close()

    def abort(self) -> None:
        """Close at once."""
        self._tls.abort()

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Return the application's protocol."""
        return self._tls.protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Replace the application's protocol."""
        self._tls.protocol = cast(asyncio.Protocol, protocol)

    def can_write_eof(self) -> bool:
        """Return false: TLS closes both directions."""
        return False

    def pause_reading(self) -> None:
        """Pass nothing on until `resume_reading`."""
        self._tls.is_paused = True
        self._tcp.pause_reading()

    def resume_reading(self) -> None:
        """Pass on the data that has arrived, and all later data."""
        self._tls.is_paused = False
        self._tcp.resume_reading()
        asyncio.get_running_loop().call_soon(self._tls.read)

    def is_reading(self) -> bool:
        """Tell whether data is passed on."""
        return not self._tls.is_paused

    def set_write_buffer_limits(
        self, high: int | None = None, low: int | None = None
    ) -> None:
        """Set the sizes in bytes at which the application is paused and resumed."""
        self._tcp.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        """Return how many encrypted bytes wait to be sent."""
        return self._tcp.get_write_buffer_size()

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """Return the sizes that `set_write_buffer_limits` has set."""
        return self._tcp.get_write_buffer_limits()


def _reason(error: SSL.Error) -> str:
    """Return OpenSSL's reason of an error."""
    errors = error.args[0] if error.args else ()
    if isinstance(errors, list) and errors:
        return str(errors[-1][-1])
    return ": ".join(map(str, error.args)) or type(error).__name__
