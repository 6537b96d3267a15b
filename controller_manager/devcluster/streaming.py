"""The protocols of ``kubectl port-forward`` and ``kubectl exec``, and of logs.

Upstream: kubelet/pkg/cri/streaming; pkg/util/httpstream/wsstream of apimachinery.
"""

import asyncio
import os
import struct
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Sequence,
)
from contextlib import aclosing, suppress
from typing import Final

import msgspec
from msgspec import Struct

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.responses import SPDY, Connection

from .proxying import Address
from .spdy import Session, SPDYError, Stream


async def _first_of(*works: Awaitable[object]) -> None:
    """Wait until one of several ends, and cancel the others; raises their errors."""
    tasks = [asyncio.ensure_future(each) for each in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    for each in outcomes:
        if isinstance(each, Exception):
            raise each


# The protocols of ``kubectl port-forward`` (kubelet/pkg/cri/streaming/portforward).

FORWARD_STREAMS: Final = "portforward.k8s.io"
"""The protocol over SPDY: a stream for data and one for errors, for each connection."""

TUNNEL: Final = f"SPDY/3.1+{FORWARD_STREAMS}"
"""The same within the messages of a websocket, as kubectl speaks it since 1.31."""

FORWARD_CHANNELS: Final = "v4.channel.k8s.io"
"""A websocket with two channels for each port, as clients in other languages do."""

_AT_ONCE: Final = 64 * 1024


class PortError(Exception):
    """A port cannot be forwarded; the message says why."""


AddressOf = Callable[[int], Address]
"""Returns the address of the program behind a port; raises PortError."""


def forwarding(
    subprotocol: str, address_of: AddressOf, ports: Sequence[int]
) -> Callable[[Connection], Awaitable[None]]:
    """Return the function that speaks a subprotocol; `ports` are for channels."""
    if subprotocol == FORWARD_CHANNELS:
        return lambda connection: _forward_over_channels(connection, address_of, ports)
    return lambda connection: _forward_over_streams(connection, address_of)


async def _connected(
    address_of: AddressOf, port: int
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to the program behind a port; raises PortError."""
    host, number = address_of(port)
    try:
        return await asyncio.open_connection(host, number)
    except OSError as error:
        why = os.strerror(error.errno).lower() if error.errno else str(error)
        where = f"{host}:{number}"
        raise PortError(f"port {port}: dial tcp {where}: connect: {why}") from None


async def _forward_over_streams(connection: Connection, address_of: AddressOf) -> None:
    """Forward connections, each with two streams of the same request id."""
    session, pairs = Session(connection), dict[str, dict[str, Stream]]()
    async with asyncio.TaskGroup() as group:

        def opened(stream: Stream) -> None:
            key = stream.headers.get("requestid", stream.headers.get("port", ""))
            pair = pairs.setdefault(key, {})
            pair[stream.headers.get("streamtype", "")] = stream
            if {*pair} >= {"data", "error"}:
                del pairs[key]
                forwarded = _forwarded(session, pair["data"], pair["error"], address_of)
                tasks.append(group.create_task(forwarded))

        tasks: list[asyncio.Task[None]] = []
        try:
            with suppress(SPDYError, ConnectionError):
                await session.run(opened)
        finally:
            for task in tasks:
                task.cancel()


async def _forwarded(
    session: Session, data: Stream, error: Stream, address_of: AddressOf
) -> None:
    """Copy the bytes of one connection in both directions."""
    with suppress(ConnectionError):
        try:
            reader, writer = await _connected(address_of, _port_of(data))
        except PortError as problem:
            await error.write(str(problem).encode())
        else:
            await _copied(data, reader, writer)
        await session.forget(data)
        await session.forget(error)


def _port_of(stream: Stream) -> int:
    """Return the port in the headers of a stream; raises PortError."""
    text = stream.headers.get("port", "")
    if text.isascii() and text.isdigit():
        return int(text)
    raise PortError(f'"port" header "{text}" is no number')


async def _copied(
    data: Stream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Copy until the program ends its side, or the client gives up."""

    async def to_program() -> None:
        with suppress(ConnectionError):
            while chunk := await data.read():
                writer.write(chunk)
                await writer.drain()
            writer.write_eof()
        await data.was_reset.wait()  # or until the program ends its side

    async def to_client() -> None:
        with suppress(ConnectionError):
            while chunk := await reader.read(_AT_ONCE):
                await data.write(chunk)

    try:
        await _first_of(to_program(), to_client(), data.was_reset.wait())
    finally:
        writer.close()


async def _forward_over_channels(
    connection: Connection, address_of: AddressOf, ports: Sequence[int]
) -> None:
    """Forward one connection for each port, with a channel for data and for errors.

    The first message of each channel is its port.
    """
    readers: dict[int, asyncio.StreamReader] = {}
    writers: dict[int, asyncio.StreamWriter] = {}

    async def to_client(channel: int, reader: asyncio.StreamReader) -> None:
        with suppress(ConnectionError):
            while chunk := await reader.read(_AT_ONCE):
                await connection.send(bytes([channel]) + chunk)

    async def to_programs() -> None:
        with suppress(ConnectionError):
            while message := await connection.receive():
                if writer := writers.get(message[0]):
                    writer.write(message[1:])
                    await writer.drain()

    for place, port in enumerate(ports):
        number = struct.pack("<H", port)
        for channel in (2 * place, 2 * place + 1):
            await connection.send(bytes([channel]) + number)
    try:
        for place, port in enumerate(ports):
            channel = 2 * place
            try:
                connected = await _connected(address_of, port)
            except PortError as problem:
                await connection.send(bytes([channel + 1]) + str(problem).encode())
            else:
                readers[channel], writers[channel] = connected
        sending = (to_client(*each) for each in readers.items())
        await _first_of(asyncio.gather(*sending), to_programs())
    finally:
        for writer in writers.values():
            writer.close()


# The protocols of ``kubectl exec`` (kubelet/pkg/cri/streaming/remotecommand).

EXEC_STREAMS: Final = ("v4.channel.k8s.io",)
"""The protocols over SPDY: a stream for errors, and one for each standard stream."""

_PLAIN: Final = "channel.k8s.io"
EXEC_CHANNELS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io", _PLAIN)
"""The protocols over websockets: the first byte of a message is its channel."""

_EXEC_CHANNELS: Final = {"stdout": b"\x01", "stderr": b"\x02", "error": b"\x03"}
_PATIENCE: Final = 10.0
"""Seconds for which the server waits for the streams of a client."""


class Result(Struct, frozen=True):
    """The outcome of a command: its output and its exit code, after `seconds`.

    `stdout` has pieces, with the seconds after which each is written.
    """

    command: Sequence[str]
    stdout: Sequence[tuple[float, bytes]] = ()
    stderr: bytes = b""
    code: int = 0
    seconds: float = 0.0

    async def pieces(self) -> AsyncGenerator[tuple[str, bytes], None]:
        """Yield each output with the name of its stream, at its time, until the end."""
        passed = 0.0
        for after, data in self.stdout:
            await asyncio.sleep(after - passed)
            passed = after
            yield "stdout", data
        await asyncio.sleep(self.seconds - passed)
        if self.stderr:
            yield "stderr", self.stderr

    def status(self) -> bytes:
        """Return the Status that a client reads after the output."""
        status: JSON = {"metadata": {}, "status": "Success"}
        if self.code:
            cause = {"reason": "ExitCode", "message": str(self.code)}
            status = {
                "metadata": {},
                "status": "Failure",
                "message": (
                    "command terminated with non-zero exit code: error executing "
                    f"command [{' '.join(self.command)}], exit code {self.code}"
                ),
                "reason": "NonZeroExitCode",
                "details": {"causes": [cause]},
            }
        return msgspec.json.encode(status)


def executing(
    protocol: str, subprotocol: str, result: Result, wanted: frozenset[str]
) -> Callable[[Connection], Awaitable[None]]:
    """Return the function that sends a result; `wanted` are the client's streams."""
    if protocol == SPDY:
        return lambda connection: _exec_over_streams(connection, result, wanted)
    plain = subprotocol == _PLAIN
    return lambda connection: _exec_over_channels(connection, result, wanted, plain)


async def _exec_over_channels(
    connection: Connection,
    result: Result,
    wanted: frozenset[str],
    plain: bool,  # noqa: FBT001 - private
) -> None:
    """Send a result; a `plain` protocol has errors as text, and no success."""
    with suppress(ConnectionError):
        async for name, data in result.pieces():
            if name in wanted:
                await connection.send(_EXEC_CHANNELS[name] + data)
        status = result.status()
        if plain:
            status = msgspec.json.decode(status).get("message", "").encode()
        if status:
            await connection.send(_EXEC_CHANNELS["error"] + status)


async def _exec_over_streams(
    connection: Connection, result: Result, wanted: frozenset[str]
) -> None:
    """Send a result once the client has opened all its streams."""
    session, streams = Session(connection), dict[str, Stream]()
    complete = asyncio.Event()

    def opened(stream: Stream) -> None:
        streams[stream.headers.get("streamtype", "")] = stream
        if {*streams} >= {"error", *wanted}:
            complete.set()

    async def send() -> None:
        with suppress(SPDYError, ConnectionError, TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                await complete.wait()
            async for name, data in result.pieces():
                if name in wanted:
                    await streams[name].write(data)
            for name in {"stdout", "stderr"} & wanted:
                await streams[name].close()
            await streams["error"].write(result.status())
            await streams["error"].close()
            await asyncio.sleep(_PATIENCE)  # until the client ends the connection

    with suppress(SPDYError):
        await _first_of(session.run(opened), send())


# The protocols of logs over websockets.

LOG_MESSAGES: Final = ("", "binary.k8s.io")
"""The protocols in which each message is a piece of a log."""


def sending(
    chunks: AsyncGenerator[bytes, None],
) -> Callable[[Connection], Awaitable[None]]:
    """Return the function that sends pieces until the client leaves."""

    async def send(connection: Connection) -> None:
        with suppress(ConnectionError):
            async with aclosing(chunks):
                async for each in chunks:
                    await connection.send(each)

    async def serve(connection: Connection) -> None:
        await _first_of(send(connection), connection.receive())

    return serve
