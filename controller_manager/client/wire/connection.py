"""One connection to a server, which carries one request at a time."""

import asyncio
import math
from typing import Final, Protocol, cast

from .answers import LONGEST_HEAD, Body, Head, MalformedAnswer, body_of, parse_head

_HEAD_END: Final = b"\r\n\r\n"


class ConnectionBroken(Exception):
    """The connection ended before the answer did."""


class Receiver(Protocol):
    """Takes the answer to one request."""

    def head_received(self, head: Head) -> None:
        """Take the final head."""

    def data_received(self, data: bytes) -> None:
        """Take the next part of the body."""

    def ended(self) -> None:
        """Learn that the body is whole."""

    def failed(self, error: Exception) -> None:
        """Learn that the rest of the answer will not come."""


class Owner(Protocol):
    """Owns connections: the pool."""

    def freed(self, connection: "Connection") -> None:
        """Take back a connection that can carry another request."""

    def lost(self, connection: "Connection") -> None:
        """Forget a connection that is closed."""


class Connection(asyncio.Protocol):
    """One connection; `deadline` is the time of the loop at which it gives up."""

    __slots__ = (
        "_answers_head",
        "_body",
        "_buffer",
        "_head",
        "_owner",
        "_receiver",
        "_transport",
        "deadline",
        "generation",
        "is_closed",
        "key",
    )

    def __init__(self, owner: Owner, key: object) -> None:
        """Let a request with the same `key` use the connection."""
        self._owner = owner
        self.key = key
        self.deadline = math.inf
        self.generation = 0
        """The generation of the pool in which the connection was opened."""
        self.is_closed = False
        self._transport: asyncio.Transport | None = None
        self._receiver: Receiver | None = None
        self._buffer = b""
        self._head: Head | None = None
        self._body: Body | None = None
        self._answers_head = False

    def send(self, request: bytes, receiver: Receiver, *, is_head: bool) -> None:
        """Write a request at once; `receiver` gets the answer."""
        assert self._transport is not None  # noqa: S101 - it is connected
        self._receiver, self._answers_head = receiver, is_head
        self._head = self._body = None
        self._transport.write(request)

    def pause_reading(self) -> None:
        """Let the server wait: the reader is slow."""
        if self._transport is not None and not self.is_closed:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read on."""
        if self._transport is not None and not self.is_closed:
            self._transport.resume_reading()

    def give_up(self, error: Exception) -> None:
        """Close the connection, and drop the bytes that are not sent yet."""
        self._fail(error)

    def carries(self, receiver: Receiver) -> bool:
        """Tell whether the answer to `receiver` is not whole yet.

        Once it is, the connection may carry another request.
        """
        return self._receiver is receiver

    def abort(self) -> None:
        """Close the connection without telling the receiver."""
        self._receiver = None
        self._close()

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none

    def data_received(self, data: bytes) -> None:
        """Take bytes of the answer."""
        receiver = self._receiver
        if receiver is None:  # an idle server has nothing to say
            self._close()
            return
        try:
            if self._head is None:
                data = self._read_head(data, receiver)
                if self._head is None:
                    return
            self._read_body(data, receiver)
        except MalformedAnswer as error:
            self._fail(error)

    def _read_head(self, data: bytes, receiver: Receiver) -> bytes:
        """Return the bytes after the head, if it is whole."""
        while True:
            data = self._buffer + data if self._buffer else data
            end = data.find(_HEAD_END)
            if end < 0:
                if len(data) > LONGEST_HEAD:
                    msg = f"a head of more than {LONGEST_HEAD} bytes"
                    raise MalformedAnswer(msg)
                self._buffer = data
                return b""
            self._buffer = b""
            head = parse_head(data[:end])
            data = data[end + len(_HEAD_END) :]
            if not head.is_interim:
                self._body = body_of(head, answers_head=self._answers_head)
                self._head = head
                receiver.head_received(head)
                return data

    def _read_body(self, data: bytes, receiver: Receiver) -> None:
        body = self._body
        assert body is not None  # noqa: S101 - it follows the head
        if data:
            content = body.feed(data)
            if content:
                receiver.data_received(content)
        if body.is_whole:
            self._finish()

    def _finish(self) -> None:
        receiver, head = self._receiver, self._head
        assert receiver is not None and head is not None  # noqa: S101, PT018
        self._receiver = None
        if head.keeps_alive and not self.is_closed:
            self.deadline = math.inf
            self._owner.freed(self)
        else:
            self._close()
        receiver.ended()

    def eof_received(self) -> bool:
        """End the answer if its end is that of the connection."""
        self._end(None)
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the receiver."""
        self._end(exc)
        self._close()

    def _end(self, error: Exception | None) -> None:
        if self._receiver is None:
            self._close()
        elif error is None and self._body is not None and self._body.end():
            receiver = self._receiver
            self.abort()
            receiver.ended()
        else:
            why = str(error) if error else "the server closed the connection"
            self._fail(ConnectionBroken(f"{why} before its answer was complete"))

    def _fail(self, error: Exception) -> None:
        receiver = self._receiver
        self.abort()
        if receiver is not None:
            receiver.failed(error)

    def _close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self._owner.lost(self)
            if self._transport is not None:
                self._transport.abort()
