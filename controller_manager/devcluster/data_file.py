"""The data file of a cluster: a snapshot with its keys; saved, taken and restored."""

import asyncio
import fcntl
import os
import secrets
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Final, Self

import msgspec

from controller_manager.client.identity.credentials import from_kubeconfig
from controller_manager.client.identity.kubeconfig import ConfigError
from controller_manager.client.rest.errors import TransportError
from controller_manager.client.rest.transport import Request
from controller_manager.client.wire.http import HTTPTransport
from controller_manager.clock import Clock, SystemClock
from controller_manager.observability.logs import Logger
from controller_manager.serving.certificates import Pair
from controller_manager.version import COMMAND_USER_AGENT

from . import snapshot
from .http_server import ClusterKeys
from .storage import Storage, StorageState, load, restore, state_of

# The file in which a cluster keeps its state: a snapshot that also has the keys.

RESERVE: Final = 1_000_000
"""The versions that are left out after a crash: clients may have seen some of them."""

_SQLITE: Final = b"SQLite format 3\x00"
"""The beginning of the data files of versions up to 0.3."""


class DataFile:
    """An open data file, which no other cluster can open.

    Each write replaces the whole file in one step. So the file has the state of one
    moment, also after a crash of this process or of the machine.
    """

    def __init__(
        self,
        path: Path,
        lock: int,
        header: snapshot.Header,
        facts: snapshot.ClusterFacts,
    ) -> None:
        """Take the descriptor of the file, which has the lock, and its first line."""
        self.path = path
        self.port = facts.port
        self.time: Final = facts.time
        self.admin_token: Final = facts.admin_token
        self._lock = lock
        self._facts = facts
        self._version = int(header.resource_version)
        if not facts.is_final:
            self._version += RESERVE
        authority = Pair(facts.authority.encode(), facts.authority_key.encode())
        self.keys: Final = ClusterKeys.from_pem(authority, facts.account_key.encode())

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open a data file, or create it with new keys; raises DataError.

        It does not change a file that it cannot use.
        """
        if not path.parent.is_dir():
            raise snapshot.DataError(f"{path}: there is no directory {path.parent}")
        lock = _locked(path)
        try:
            with os.fdopen(os.dup(lock), "rb") as file:
                line = file.readline()
            if line:
                header = _usable(path, line)
                return cls(path, lock, header, _facts(path, header))
            empty = snapshot.Header(
                "controller-manager devcluster snapshot", 1, "1", 0, {}
            )
            created = cls(path, lock, empty, _new_facts())
            created.write(StorageState(1, {}, {}), is_final=True)
        except ValueError as error:
            os.close(lock)
            raise _damaged(path, f"its keys: {error}") from error
        except BaseException:
            os.close(lock)
            raise
        return created

    def state(self) -> StorageState:
        """Return all objects; raises DataError.

        After a crash, the version is higher than all versions that clients may have
        seen.
        """
        text = snapshot.read_text(self.path)
        try:
            state = snapshot.decode_snapshot(text)
        except snapshot.DataError as error:
            raise _damaged(self.path, error) from error
        return msgspec.structs.replace(state, version=self._version)

    def write(
        self,
        state: StorageState,
        time: datetime | None = None,
        *,
        is_final: bool = False,
    ) -> None:
        """Replace all objects; a cluster that ends says that the state `is_final`.

        Raises DataError, and then nothing has changed.
        """
        facts = msgspec.structs.replace(
            self._facts,
            port=self.port,
            time=time or self._facts.time,
            is_final=is_final,
        )
        lock = -1
        try:
            # The draft of a killed cluster is replaced by that of the next one.
            with snapshot.replaced(self.path, "new") as draft:
                # The lock of a file ends with its last descriptor.
                lock = os.dup(draft.fileno())
                fcntl.flock(lock, fcntl.LOCK_EX)
                draft.writelines(snapshot.encode_snapshot(state, facts))
        except BaseException:
            if lock >= 0:
                os.close(lock)
            raise
        os.close(self._lock)
        self._lock, self._facts = lock, facts
        self._version = state.version if is_final else state.version + RESERVE

    def close(self) -> None:
        """Let other clusters open the file."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def __enter__(self) -> Self:
        """Return the open file."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self.close()


def _locked(path: Path) -> int:
    """Open a file, or create it for its owner only, and lock it; raises DataError."""
    while True:
        try:
            lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise snapshot.DataError(
                f"{path}: cannot be opened: {error.strerror}"
            ) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(lock)
            raise snapshot.DataError(
                f"{path}: is in use by another development cluster; stop that one, "
                "or name another file"
            ) from error
        if path.exists() and os.path.samestat(path.stat(), os.fstat(lock)):
            return lock
        # The other cluster has replaced the file since it was opened.
        os.close(lock)


def _usable(path: Path, line: bytes) -> snapshot.Header:
    """Return the first line of a data file; raises DataError for any other file."""
    if line.startswith(_SQLITE):
        raise snapshot.DataError(
            f"{path}: is a data file of version 0.3 or earlier, or a file of another "
            "program (SQLite), and was left as it is; with controller-manager 0.3, run "
            f"devcluster snapshot --data {path} FILE, and with this version devcluster "
            "restore --data NEW-DATA FILE"
        )
    try:
        return snapshot.decode_header(line)
    except snapshot.DataError as error:
        if error.__cause__ is None:
            msg = f"{path}: {error}, or name another file"
        else:
            msg = (
                f"{path}: is not a data file of a development cluster; name another "
                "file"
            )
        raise snapshot.DataError(msg) from error


def _facts(path: Path, header: snapshot.Header) -> snapshot.ClusterFacts:
    if isinstance(header.cluster, snapshot.ClusterFacts):
        return header.cluster
    raise snapshot.DataError(
        f"{path}: is a snapshot without keys, not a data file; restore it to one: "
        f"controller-manager devcluster restore --data NEW-DATA {path}"
    )


def _new_facts() -> snapshot.ClusterFacts:
    keys = ClusterKeys.generate()
    return snapshot.ClusterFacts(
        authority=keys.authority.certificate.decode(),
        authority_key=keys.authority.key.decode(),
        account_key=keys.account_key_pem().decode(),
        admin_token=secrets.token_urlsafe(32),
        is_final=True,
    )


def _damaged(path: Path, why: object) -> snapshot.DataError:
    reason = str(why).replace("\n", " ")
    return snapshot.DataError(
        f"{path}: is damaged, and was left as it is: {reason}; restore a snapshot to "
        "another file, or name another file"
    )


# Writes the state of a cluster to its data file, in the background.

_PERIOD: Final = 1.0
"""Seconds between two writes of a small cluster."""

_SHARE: Final = 10
"""A large cluster waits so many times as long as its last write took."""


class Saving:
    """Keeps the data file of a cluster up to date.

    It writes the whole state each second if it has changed, and at the end. The event
    loop never waits: a thread writes.

    While the file cannot be written, the API server refuses requests that write.
    Changes that it has accepted before stay in memory, and are in the next write.
    """

    def __init__(
        self, file: DataFile, storage: Storage, clock: Clock, logger: Logger
    ) -> None:
        """Take the file, whose state is in the storage already, and write once.

        Later clusters then know that this one has begun. Raises DataError if the file
        cannot be written.
        """
        self._file = file
        self._storage = storage
        self._clock = clock
        self._logger = logger
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="devcluster-data")
        self._pause = _PERIOD
        storage.is_kept = True
        file.write(state_of(storage), clock.now())
        self._saved = storage.version

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await asyncio.sleep(self._pause)
            if self._saved == self._storage.version:
                continue
            try:
                await self.save()
            except snapshot.DataError as error:
                if not self._storage.trouble:
                    self._logger.error("Data file cannot be written", err=str(error))
                self._storage.trouble = str(error)
            else:
                if self._storage.trouble:
                    self._storage.trouble = ""
                    self._logger.info("Data file is written again")

    async def save(self, *, is_final: bool = False) -> None:
        """Write the present state; raises DataError."""
        state, now = state_of(self._storage), self._clock.now()
        loop = asyncio.get_running_loop()
        began = loop.time()  # which may be fast, as the pause
        await loop.run_in_executor(
            self._thread, lambda: self._file.write(state, now, is_final=is_final)
        )
        self._saved = state.version
        self._pause = max(_PERIOD, _SHARE * (loop.time() - began))

    async def close(self) -> None:
        """Write the last state, and close the file.

        :meth:`run` must have ended. Raises DataError.
        """
        try:
            # The thread ends an earlier write first.
            await self.save(is_final=True)
        finally:
            self._thread.shutdown()
            self._file.close()


# Takes and restores snapshots: of a running cluster, and of a data file.

_PATIENCE: Final = 600.0
"""Seconds that a large cluster may take."""

_OK: Final = 200
_NOT_FOUND: Final = 404


async def snapshot_of_cluster(kubeconfig: Path, file: Path) -> int:
    """Write the state of a running cluster; return the number of its objects.

    Raises DataError; then an old file stays.
    """
    async with _connection(kubeconfig) as transport:
        answer = await transport.stream(
            Request("GET", snapshot.PATH, timeout=_PATIENCE)
        )
        try:
            if answer.status != _OK:
                body = b"".join([piece async for piece in answer.chunks()])
                raise _refused(transport, answer.status, body)
            with snapshot.replaced(file) as draft:
                async for piece in answer.chunks():
                    draft.write(piece)
        finally:
            await answer.close()
    return snapshot.read_snapshot(file).count


def snapshot_of_data(data: Path, file: Path) -> int:
    """Write the state in a data file; return the number of objects.

    Raises DataError.
    """
    if not data.exists():
        raise snapshot.DataError(f"{data}: there is no such file")
    with DataFile.open(data) as opened:
        state = opened.state()
    snapshot.write_snapshot(file, state)
    return state.count


async def restore_cluster(
    kubeconfig: Path, file: Path, *, keeps_watches: bool = False
) -> int:
    """Restore a snapshot in a running cluster; return the number of objects.

    Watches end with 410, unless it `keeps_watches`. Raises DataError.
    """
    # A part of a snapshot is told before anything is sent.
    text, count = snapshot.read_text(file), snapshot.read_snapshot(file).count
    headers = {"content-type": snapshot.MEDIA_TYPE}
    query = (snapshot.KEEP_WATCHES,) if keeps_watches else ()
    request = Request("PUT", snapshot.PATH, query, headers, text, _PATIENCE)
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
    state, storage = snapshot.read_snapshot(file), Storage()
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
        raise snapshot.DataError(str(error)) from error
    transport = HTTPTransport(credentials, COMMAND_USER_AGENT)
    try:
        yield transport
    except (ConfigError, TransportError) as error:
        raise snapshot.DataError(f"{kubeconfig}: {error}") from error
    finally:
        await transport.close()


def _refused(transport: HTTPTransport, status: int, body: bytes) -> snapshot.DataError:
    if status == _NOT_FOUND:
        return snapshot.DataError(
            f"{transport.host}: is not a development cluster of this version: it has "
            f"no path {snapshot.PATH}"
        )
    message = body.decode(errors="replace").strip()
    with suppress(msgspec.DecodeError, KeyError, TypeError):
        message = msgspec.json.decode(body)["message"]
    return snapshot.DataError(f"{transport.host}: answered {status}: {message}")
