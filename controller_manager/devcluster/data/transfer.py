"""Takes and restores snapshots: of a running cluster, and of a data file."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from controller_manager.client.identity.credentials import from_kubeconfig
from controller_manager.client.identity.kubeconfig import ConfigError
from controller_manager.client.rest.errors import TransportError
from controller_manager.client.rest.transport import Request
from controller_manager.client.wire.http import HTTPTransport
from controller_manager.clock import SystemClock
from controller_manager.devcluster.storage import Storage, load, restore, state_of
from controller_manager.version import COMMAND_USER_AGENT

from .data_file import DataFile
from .endpoint import KEEP_WATCHES, MEDIA_TYPE, PATH
from .snapshot import DataError, read_snapshot, read_text, replaced, write_snapshot

_PATIENCE: Final = 600.0
"""Seconds that a large cluster may take."""

_OK: Final = 200
_NOT_FOUND: Final = 404


async def snapshot_of_cluster(kubeconfig: Path, file: Path) -> int:
    """Write the state of a running cluster; return the number of its objects.

    Raises DataError; then an old file stays.
    """
    async with _connection(kubeconfig) as transport:
        answer = await transport.stream(Request("GET", PATH, timeout=_PATIENCE))
        try:
            if answer.status != _OK:
                body = b"".join([piece async for piece in answer.chunks()])
                raise _refused(transport, answer.status, body)
            with replaced(file) as draft:
                async for piece in answer.chunks():
                    draft.write(piece)
        finally:
            await answer.close()
    return read_snapshot(file).count


def snapshot_of_data(data: Path, file: Path) -> int:
    """Write the state in a data file; return the number of objects.

    Raises DataError.
    """
    if not data.exists():
        msg = f"{data}: there is no such file"
        raise DataError(msg)
    with DataFile.open(data) as opened:
        state = opened.state()
    write_snapshot(file, state)
    return state.count


async def restore_cluster(
    kubeconfig: Path, file: Path, *, keeps_watches: bool = False
) -> int:
    """Restore a snapshot in a running cluster; return the number of objects.

    Watches end with 410, unless it `keeps_watches`. Raises DataError.
    """
    # A part of a snapshot is told before anything is sent.
    text, count = read_text(file), read_snapshot(file).count
    headers = {"content-type": MEDIA_TYPE}
    query = (KEEP_WATCHES,) if keeps_watches else ()
    request = Request("PUT", PATH, query, headers, text, _PATIENCE)
    async with _connection(kubeconfig) as transport:
        answer = await transport.request(request)
        if answer.status != _OK:
            raise _refused(transport, answer.status, answer.body)
    return count


def restore_data(data: Path, file: Path) -> int:
    """Restore a snapshot in a data file; return the number of objects.

    Versions continue from those of the file. Raises DataError, and then the file has
    not changed.
    """
    state, storage = read_snapshot(file), Storage()
    with DataFile.open(data) as opened:
        load(storage, opened.state())
        restore(storage, state, ends_watches=True)
        opened.write(state_of(storage), is_final=True)
    return state.count


@asynccontextmanager
async def _connection(kubeconfig: Path) -> AsyncIterator[HTTPTransport]:
    """Yield a transport to a cluster; raises DataError for all its failures."""
    try:
        credentials = from_kubeconfig(str(kubeconfig), "", SystemClock())
    except ConfigError as error:
        raise DataError(str(error)) from error
    transport = HTTPTransport(credentials, COMMAND_USER_AGENT)
    try:
        yield transport
    except (ConfigError, TransportError) as error:
        msg = f"{kubeconfig}: {error}"
        raise DataError(msg) from error
    finally:
        await transport.close()


def _refused(transport: HTTPTransport, status: int, body: bytes) -> DataError:
    """Return the error for an answer that is no success."""
    if status == _NOT_FOUND:
        return DataError(
            f"{transport.host}: is not a development cluster of this version: it has "
            f"no path {PATH}"
        )
    message = body.decode(errors="replace").strip()
    with suppress(msgspec.DecodeError, KeyError, TypeError):
        message = msgspec.json.decode(body)["message"]
    return DataError(f"{transport.host}: answered {status}: {message}")
