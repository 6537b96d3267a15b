"""Takes and restores snapshots: of a running cluster, and of a data file."""

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import IO, Final

import msgspec

from controller_manager.client.identity.credentials import from_kubeconfig
from controller_manager.client.identity.kubeconfig import ConfigError
from controller_manager.client.rest.errors import TransportError
from controller_manager.client.rest.transport import Request
from controller_manager.client.wire.http import HTTPTransport
from controller_manager.clock import SystemClock
from controller_manager.devcluster.server.storage.state import (
    StorageState,
    load,
    restore,
    state_of,
)
from controller_manager.devcluster.server.storage.storage import Storage
from controller_manager.version import COMMAND_USER_AGENT

from .collector import paused_collector
from .data_error import DataError
from .data_file import DataFile
from .endpoint import KEEP_WATCHES, MEDIA_TYPE, PATH
from .snapshot import checked_count, decode_snapshot, encode_snapshot

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
            with _replaced(file) as draft:
                async for piece in answer.chunks():
                    draft.write(piece)
        finally:
            await answer.close()
    return _checked(file, _text(file))


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
    text = _text(file)
    count = _checked(file, text)
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
    with DataFile.open(data) as opened, paused_collector():
        load(storage, opened.state())
        restore(storage, state, ends_watches=True)
        opened.replace(state_of(storage))
    return state.count


def write_snapshot(file: Path, state: StorageState) -> None:
    """Write a snapshot that only its owner can read; raises DataError."""
    with _replaced(file) as draft:
        draft.writelines(encode_snapshot(state))


def read_snapshot(file: Path) -> StorageState:
    """Return the state that a snapshot has; raises DataError."""
    text = _text(file)
    with _named(file):
        return decode_snapshot(text)


def _checked(file: Path, text: bytes) -> int:
    """Return the number of objects of a snapshot; raises DataError."""
    with _named(file):
        return checked_count(text)


@contextmanager
def _named(file: Path) -> Iterator[None]:
    """Name the file in errors about its text."""
    try:
        yield
    except DataError as error:
        msg = f"{file}: {error}"
        raise DataError(msg) from error


def _text(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        msg = f"{file}: cannot be read: {error.strerror}"
        raise DataError(msg) from error


@contextmanager
def _replaced(file: Path) -> Iterator[IO[bytes]]:
    """Yield a new file that replaces `file` after the last write."""
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as opened:
                yield opened
            draft.replace(file)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        msg = f"{file}: cannot be written: {error.strerror}"
        raise DataError(msg) from error


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
