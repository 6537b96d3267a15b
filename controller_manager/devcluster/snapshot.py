"""Snapshots of a cluster's state: one line of JSON for each object.

A data file is a snapshot that also has the keys, and a running cluster saves its state
there. An endpoint sends and takes snapshots.
"""

import asyncio
import fcntl
import gc
import io
import os
import secrets
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from pathlib import Path
from typing import IO, Any, Final, Literal, Self

import msgspec
from msgspec import Struct

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Request, Response
from controller_manager.clock import Clock
from controller_manager.devcluster.apiserver.field_set import shared
from controller_manager.devcluster.apiserver.responses import json_response
from controller_manager.devcluster.apiserver.security import User
from controller_manager.devcluster.scheme.statuses import (
    Refusal,
    bad_request,
    method_not_allowed,
    success,
)
from controller_manager.observability.logs import Logger
from controller_manager.serving.certificates import Pair
from controller_manager.version import KUBERNETES_VERSION

from .http_server import ClusterKeys
from .inmemory import StreamingResponse
from .storage import Key, Storage, StorageState, Stored, state_of

# The state of a cluster as a file of text: one line of JSON for each object.

VERSION: Final = 1
"""The version of the format of new snapshots; all earlier versions can be read."""

_FORMAT: Final = "controller-manager devcluster snapshot"
_CHUNK: Final = 200
"""The number of objects that are encoded at a time."""


class DataError(Exception):
    """A data file or a snapshot cannot be used; the message is one line."""


class ClusterFacts(
    Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True
):
    """The facts of a cluster that its data file has besides the objects.

    The cluster that wrote the file had ended only if `is_final`. `time` is that of its
    clock, which may be fast.
    """

    authority: str
    authority_key: str
    account_key: str
    admin_token: str
    port: int = 0
    time: datetime | None = None
    is_final: bool = False


class Header(Struct, frozen=True, rename="camel"):
    """The first line."""

    format: Literal["controller-manager devcluster snapshot"]
    version: int
    resource_version: str
    objects: int
    numbers: dict[str, int]
    kubernetes: str = ""
    cluster: ClusterFacts | msgspec.UnsetType = msgspec.UNSET


class _Metadata(Struct, frozen=True, rename="camel"):
    name: str
    uid: str
    resource_version: str
    namespace: str = ""
    managed_fields: list[dict[str, Any]] | None = None


class _Object(Struct, frozen=True, rename="camel"):
    """The fields of every object that the server needs."""

    kind: str
    api_version: str
    metadata: _Metadata


class _Line(Struct, frozen=True):
    resource: str
    object: dict[str, Any]


_HEADER: Final = msgspec.json.Decoder(Header)
_LINE: Final = msgspec.json.Decoder(_Line)


def encode_snapshot(
    state: StorageState, cluster: ClusterFacts | msgspec.UnsetType = msgspec.UNSET
) -> Iterator[bytes]:
    """Yield the text of a snapshot in pieces, sorted by resource and key.

    With `cluster`, the text is that of a data file.
    """
    header = Header(
        _FORMAT,
        VERSION,
        str(state.version),
        state.count,
        dict(state.numbers),
        KUBERNETES_VERSION,
        cluster,
    )
    yield msgspec.json.encode(header) + b"\n"
    for resource, objects in sorted(state.objects.items()):
        keys = sorted(objects)
        for start in range(0, len(keys), _CHUNK):
            # Not `Stored.encoded`, which would keep the bytes in memory.
            yield b"".join(
                msgspec.json.encode({"resource": resource, "object": objects[key].obj})
                + b"\n"
                for key in keys[start : start + _CHUNK]
            )


def decode_header(line: bytes) -> Header:
    """Return the first line; raises DataError without the name of the file."""
    try:
        header = _HEADER.decode(line)
        int(header.resource_version)
    except ValueError as error:  # msgspec's errors are ValueErrors
        raise DataError("it is not a snapshot of a development cluster") from error
    if header.version > VERSION:
        raise DataError(
            f"it has version {header.version} of the format, and this version of "
            f"controller-manager reads versions up to {VERSION}; install a newer one"
        )
    return header


def decode_snapshot(text: bytes) -> StorageState:
    """Return the state of a snapshot; raises DataError without the name of the file."""
    lines = io.BytesIO(text)
    header = decode_header(next(lines, b""))
    with _paused_collector():
        objects, count = _objects(lines)
    if count != header.objects:
        msg = f"it has {count} of {header.objects} objects: a part of it is missing"
        raise DataError(msg)
    return StorageState(int(header.resource_version), objects, header.numbers)


def _objects(lines: Iterable[bytes]) -> tuple[dict[str, dict[Key, Stored]], int]:
    objects: dict[str, dict[Key, Stored]] = {}
    count = 0
    for number, line in enumerate(lines, 2):
        try:
            read = _LINE.decode(line)
            needed = msgspec.convert(read.object, _Object)
            metadata = needed.metadata
            version = int(metadata.resource_version)
            _share_fields(read.object)
        except ValueError as error:  # msgspec's errors are ValueErrors
            msg = f"line {number} has no object of a snapshot: {error}"
            raise DataError(msg) from error
        count += 1
        key = (metadata.namespace, metadata.name)
        # The server needs this order, and a user may have edited the file.
        first = {"kind": needed.kind, "apiVersion": needed.api_version}
        stored = Stored({**first, **read.object}, version)
        objects.setdefault(read.resource, {})[key] = stored
    return objects, count


def _share_fields(obj: JSON) -> None:
    """Let objects share equal managedFields, which are a third of a small object."""
    for entry in obj.get("metadata", {}).get("managedFields") or ():
        fields = entry.get("fieldsV1")
        if isinstance(fields, dict):
            entry["fieldsV1"] = shared(fields)


@contextmanager
def _paused_collector() -> Iterator[None]:
    """Collect no garbage while entered: all decoded objects stay.

    The search for it takes five times as long as the decoding.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def read_text(file: Path) -> bytes:
    """Return the content of a file; raises DataError."""
    try:
        return file.read_bytes()
    except OSError as error:
        raise DataError(f"{file}: cannot be read: {error.strerror}") from error


def read_snapshot(file: Path) -> StorageState:
    """Return the state that a snapshot has; raises DataError."""
    text = read_text(file)
    try:
        return decode_snapshot(text)
    except DataError as error:
        raise DataError(f"{file}: {error}") from error


def write_snapshot(file: Path, state: StorageState) -> None:
    """Write a snapshot that only its owner can read; raises DataError."""
    with replaced(file) as draft:
        draft.writelines(encode_snapshot(state))


@contextmanager
def replaced(file: Path, suffix: str = "") -> Iterator[IO[bytes]]:
    """Yield a new file that replaces `file` after the last write, in one step.

    Only its owner can read it. Its name has the `suffix` until then, by default the
    number of this process. Raises DataError, and then an old file stays.
    """
    draft = file.with_name(f".{file.name}.{suffix or os.getpid()}")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as opened:
                yield opened
                opened.flush()
                os.fsync(descriptor)
            draft.replace(file)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise DataError(f"{file}: cannot be written: {error.strerror}") from error


# The file in which a cluster keeps its state: a snapshot that also has the keys.

RESERVE: Final = 1_000_000
"""The versions that are left out after a crash: clients may have seen some of them."""

_SQLITE: Final = b"SQLite format 3\x00"
"""The beginning of the data files of versions up to 0.3."""


class DataFile(AbstractContextManager["DataFile"]):
    """An open data file, which no other cluster can open.

    Each write replaces the whole file in one step. So the file has the state of one
    moment, also after a crash of this process or of the machine.
    """

    def __init__(
        self,
        path: Path,
        lock: int,
        header: Header,
        facts: ClusterFacts,
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
            raise DataError(f"{path}: there is no directory {path.parent}")
        lock = _locked(path)
        try:
            with os.fdopen(os.dup(lock), "rb") as file:
                line = file.readline()
            if line:
                header = _usable(path, line)
                return cls(path, lock, header, _facts(path, header))
            empty = Header(_FORMAT, VERSION, "1", 0, {})
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
        text = read_text(self.path)
        try:
            state = decode_snapshot(text)
        except DataError as error:
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
            with replaced(self.path, "new") as draft:
                # The lock of a file ends with its last descriptor.
                lock = os.dup(draft.fileno())
                fcntl.flock(lock, fcntl.LOCK_EX)
                draft.writelines(encode_snapshot(state, facts))
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

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self.close()


def _locked(path: Path) -> int:
    """Open a file, or create it for its owner only, and lock it; raises DataError."""
    while True:
        try:
            lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise DataError(f"{path}: cannot be opened: {error.strerror}") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(lock)
            raise DataError(
                f"{path}: is in use by another development cluster; stop that one, "
                "or name another file"
            ) from error
        if path.exists() and os.path.samestat(path.stat(), os.fstat(lock)):
            return lock
        # The other cluster has replaced the file since it was opened.
        os.close(lock)


def _usable(path: Path, line: bytes) -> Header:
    """Return the first line of a data file; raises DataError for any other file."""
    if line.startswith(_SQLITE):
        raise DataError(
            f"{path}: is a data file of version 0.3 or earlier, or a file of another "
            "program (SQLite), and was left as it is; with controller-manager 0.3, run "
            f"devcluster snapshot --data {path} FILE, and with this version devcluster "
            "restore --data NEW-DATA FILE"
        )
    try:
        return decode_header(line)
    except DataError as error:
        if error.__cause__ is None:
            msg = f"{path}: {error}, or name another file"
        else:
            msg = (
                f"{path}: is not a data file of a development cluster; name another "
                "file"
            )
        raise DataError(msg) from error


def _facts(path: Path, header: Header) -> ClusterFacts:
    if isinstance(header.cluster, ClusterFacts):
        return header.cluster
    raise DataError(
        f"{path}: is a snapshot without keys, not a data file; restore it to one: "
        f"controller-manager devcluster restore --data NEW-DATA {path}"
    )


def _new_facts() -> ClusterFacts:
    keys = ClusterKeys.generate()
    return ClusterFacts(
        authority=keys.authority.certificate.decode(),
        authority_key=keys.authority.key.decode(),
        account_key=keys.account_key_pem().decode(),
        admin_token=secrets.token_urlsafe(32),
        is_final=True,
    )


def _damaged(path: Path, why: object) -> DataError:
    reason = str(why).replace("\n", " ")
    return DataError(
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
            except DataError as error:
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


# The path ``/devcluster/snapshot``, for snapshots of a running cluster.

PATH: Final = "/devcluster/snapshot"
MEDIA_TYPE: Final = "application/x-ndjson"
KEEP_WATCHES: Final = ("watches", "keep")
"""The parameter of a PUT that keeps watches open."""

ADMINISTRATORS: Final = "system:masters"

_MAX_BODY: Final = 1 << 30
_OK: Final = 200


class SnapshotEndpoint:
    """Answers GET with a snapshot, and restores the one in the body of a PUT.

    Only members of ``system:masters`` may do either; roles cannot allow it.
    """

    def __init__(self, storage: Storage, restore: Callable[..., None]) -> None:
        """Take the function that replaces all objects by those of a state."""
        self._storage = storage
        self._restore = restore

    def body_limit(self, user: User) -> int:
        """Return the most bytes that a user may send, 0 for the default."""
        return _MAX_BODY if ADMINISTRATORS in user.groups else 0

    async def answer(
        self, request: Request, user: User
    ) -> Response | StreamingResponse:
        """Answer a request; raises Refusal."""
        if ADMINISTRATORS not in user.groups:
            message = (
                f'forbidden: User "{user.name}" cannot use path "{PATH}": only members '
                f"of {ADMINISTRATORS} may"
            )
            raise Refusal(403, "Forbidden", message, {})
        match request.method:
            case "GET":
                pieces = _pieces(state_of(self._storage))
                return StreamingResponse(pieces, {"content-type": MEDIA_TYPE})
            case "PUT":
                return await self._restored(request)
        raise method_not_allowed()

    async def _restored(self, request: Request) -> Response:
        name, keep = KEEP_WATCHES
        if (wanted := dict(request.query).get(name, keep)) != keep:
            raise bad_request(f'{name} must be "{keep}", or absent, not "{wanted}"')
        try:
            # Decoding takes long for a large cluster; the cluster runs meanwhile.
            state = await asyncio.to_thread(decode_snapshot, request.body or b"")
        except DataError as error:
            raise bad_request(f"the snapshot cannot be restored: {error}") from error
        self._restore(state, ends_watches=KEEP_WATCHES not in request.query)
        return json_response(_OK, success(details={"objects": state.count}))


async def _pieces(state: StorageState) -> AsyncGenerator[bytes, None]:
    """Yield a snapshot; the cluster runs between its pieces."""
    for piece in encode_snapshot(state):
        yield piece
        await asyncio.sleep(0)
