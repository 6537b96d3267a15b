"""The protocols of ``kubectl exec`` (kubelet/pkg/cri/streaming/remotecommand).

Upstream: k8s.io/apimachinery/pkg/util/remotecommand for the status at the end.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final

import msgspec
from msgspec import Struct

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.responses import SPDY, Connection

from .spdy import Session, SPDYError, Stream

STREAMS: Final = ("v4.channel.k8s.io",)
"""The protocols over SPDY: a stream for errors, and one for each standard stream."""

CHANNELS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io")
"""The protocols over websockets: the first byte of a message is its channel."""

_CHANNELS: Final = {"stdout": b"\x01", "stderr": b"\x02", "error": b"\x03"}
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
    protocol: str, result: Result, wanted: frozenset[str]
) -> Callable[[Connection], Awaitable[None]]:
    """Return the function that sends a result; `wanted` are the client's streams."""
    if protocol == SPDY:
        return lambda connection: _over_streams(connection, result, wanted)
    return lambda connection: _over_channels(connection, result, wanted)


async def _over_channels(
    connection: Connection, result: Result, wanted: frozenset[str]
) -> None:
    with suppress(ConnectionError):
        async for name, data in result.pieces():
            if name in wanted:
                await connection.send(_CHANNELS[name] + data)
        await connection.send(_CHANNELS["error"] + result.status())


async def _over_streams(
    connection: Connection, result: Result, wanted: frozenset[str]
) -> None:
    """Send a result once the client has opened all its streams."""
    session, streams = Session(connection), dict[str, Stream]()
    complete = asyncio.Event()

    def opened(stream: Stream) -> None:
        streams[stream.headers.get("streamtype", "")] = stream
        if {*streams} >= {"error", *wanted}:
            complete.set()

    reading = asyncio.create_task(session.run(opened))
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
        async with asyncio.timeout(_PATIENCE):
            await reading  # the client ends the connection
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
