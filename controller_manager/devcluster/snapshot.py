"""Snapshots of a cluster's state: one line of JSON for each object; their endpoint."""

import asyncio
import gc
import io
import os
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import IO, Any, Final, Literal, Protocol

import msgspec
from msgspec import Struct

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Request, Response
from controller_manager.devcluster.apiserver.field_set import shared
from controller_manager.devcluster.apiserver.responses import json_response
from controller_manager.devcluster.apiserver.security import User
from controller_manager.devcluster.scheme.statuses import (
    Refusal,
    bad_request,
    method_not_allowed,
    success,
)
from controller_manager.version import KUBERNETES_VERSION

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
    """One object."""

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
    """Let objects with equal managedFields share one value in memory.

    A running cluster does the same. They are a third of a small object.
    """
    for entry in obj.get("metadata", {}).get("managedFields") or ():
        fields = entry.get("fieldsV1")
        if isinstance(fields, dict):
            entry["fieldsV1"] = shared(fields)


@contextmanager
def _paused_collector() -> Iterator[None]:
    """Collect no garbage while entered.

    All decoded objects stay, so there is no garbage. The search for it takes five times
    as long as the decoding.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
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


# The path ``/devcluster/snapshot``, for snapshots of a running cluster.

PATH: Final = "/devcluster/snapshot"
MEDIA_TYPE: Final = "application/x-ndjson"
KEEP_WATCHES: Final = ("watches", "keep")
"""The parameter of a PUT that keeps watches open."""

ADMINISTRATORS: Final = "system:masters"

_MAX_BODY: Final = 1 << 30
_OK: Final = 200


class Restoring(Protocol):
    """Restores a state in a running cluster."""

    def __call__(self, state: StorageState, *, ends_watches: bool) -> None:
        """Replace all objects by those of a state."""


class SnapshotEndpoint:
    """Answers GET with a snapshot, and restores the one in the body of a PUT.

    Only members of ``system:masters`` may do either; roles cannot allow it.
    """

    def __init__(self, storage: Storage, restore: Restoring) -> None:
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
