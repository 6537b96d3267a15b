"""The state of a cluster as a file of text: one line of JSON for each object.

The first line says what the file is::

    {"format":"controller-manager devcluster snapshot","version":1,
     "kubernetes":"v1.36.2","resourceVersion":"512","objects":2,"numbers":{}}
    {"resource":"namespaces","object":{"kind":"Namespace","apiVersion":"v1", ...}}
    {"resource":"pods","object":{"kind":"Pod","apiVersion":"v1", ...}}

It has the objects in their stored form, with uids and resource versions, and no keys.
``numbers`` has the counters of the last used addresses.
"""

import io
from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from controller_manager.devcluster.server.storage.state import StorageState
from controller_manager.devcluster.server.storage.storage import Key, Stored
from controller_manager.version import KUBERNETES_VERSION

from .collector import paused_collector
from .data_error import DataError
from .decoding import share_fields

VERSION: Final = 1
"""The version of the format of new snapshots; all earlier versions can be read."""

_FORMAT: Final = "controller-manager devcluster snapshot"
_CHUNK: Final = 200
"""The number of objects that are encoded at a time."""


class _Header(Struct, frozen=True, rename="camel"):
    """The first line."""

    format: Literal["controller-manager devcluster snapshot"]
    version: int
    resource_version: str
    objects: int
    numbers: dict[str, int]
    kubernetes: str = ""


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


_HEADER: Final = msgspec.json.Decoder(_Header)
_LINE: Final = msgspec.json.Decoder(_Line)


def encode_snapshot(state: StorageState) -> Iterator[bytes]:
    """Yield the text of a snapshot in pieces, sorted by resource and key."""
    header = _Header(
        _FORMAT, VERSION, str(state.version), state.count, dict(state.numbers)
    )
    encoded = msgspec.json.encode(
        msgspec.structs.replace(header, kubernetes=KUBERNETES_VERSION)
    )
    yield encoded + b"\n"
    for resource, objects in sorted(state.objects.items()):
        keys = sorted(objects)
        for start in range(0, len(keys), _CHUNK):
            yield b"".join(
                msgspec.json.encode({"resource": resource, "object": objects[key].obj})
                + b"\n"
                for key in keys[start : start + _CHUNK]
            )


def decode_snapshot(text: bytes) -> StorageState:
    """Return the state of a snapshot; raises DataError without the name of the file."""
    lines = io.BytesIO(text)
    header = _header(next(lines, b""))
    with paused_collector():
        objects, count = _objects(lines)
    if count != header.objects:
        raise _incomplete(count, header.objects)
    return StorageState(int(header.resource_version), objects, header.numbers)


def _objects(
    lines: Iterable[bytes],
) -> tuple[dict[str, dict[Key, Stored]], int]:
    """Return the objects of all lines except the first, and their number."""
    objects: dict[str, dict[Key, Stored]] = {}
    count = 0
    for number, line in enumerate(lines, 2):
        try:
            read = _LINE.decode(line)
            needed = msgspec.convert(read.object, _Object)
            metadata = needed.metadata
            version = int(metadata.resource_version)
            share_fields(read.object)
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


def checked_count(text: bytes) -> int:
    """Return the number of objects in a snapshot; it only counts lines.

    Raises DataError without the name of the file.
    """
    header = _header(text[: text.find(b"\n") + 1])
    count = text.count(b"\n") - 1
    if count != header.objects:
        raise _incomplete(count, header.objects)
    return count


def _incomplete(count: int, wanted: int) -> DataError:
    msg = f"it has {count} of {wanted} objects: a part of it is missing"
    return DataError(msg)


def _header(line: bytes) -> _Header:
    try:
        header = _HEADER.decode(line)
        int(header.resource_version)
    except ValueError as error:
        msg = "it is not a snapshot of a development cluster"
        raise DataError(msg) from error
    if header.version > VERSION:
        msg = (
            f"it has version {header.version} of the format, and this version of "
            f"controller-manager reads versions up to {VERSION}; install a newer one"
        )
        raise DataError(msg)
    return header
