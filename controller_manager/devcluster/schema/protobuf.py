"""Objects as Kubernetes' protobuf: a magic number, an envelope, a message.

A message is encoded by the model of the object, so every built-in kind can be read and
written (runtime/serializer/protobuf).
"""

import struct
from functools import cache
from typing import Final

from controller_manager.api.json_objects import JSON

from .models import Models
from .protobuf_decoder import Decoder
from .protobuf_encoder import Encoder
from .wire import BYTES, ProtobufError, read_fields, text_of, write_bytes, write_text

MAGIC: Final = b"k8s\x00"
MEDIA_TYPE: Final = "application/vnd.kubernetes.protobuf"

_ENVELOPE: Final = {1: "TypeMeta", 2: "Raw", 3: "ContentEncoding", 4: "ContentType"}
_TYPE_META: Final = {1: "APIVersion", 2: "Kind"}


class Envelope:
    """An object that is not decoded yet; `version` and `kind` tell its type."""

    def __init__(self, body: bytes, version: str = "", kind: str = "") -> None:
        """Open the envelope in a body; raises ProtobufError.

        An envelope that lacks a version or kind has the given ones.
        """
        if not body:
            raise ProtobufError("empty data")
        if not body.startswith(MAGIC):
            raise ProtobufError(
                "provided data does not appear to be a protobuf message, expected "
                f"prefix [{' '.join(map(str, MAGIC))}]"
            )
        if len(body) == len(MAGIC):
            raise ProtobufError("empty body")
        fields = _contents(body[len(MAGIC) :], "Unknown", _ENVELOPE)
        meta = _contents(fields.get(1, b""), "TypeMeta", _TYPE_META)
        self.version = text_of(meta.get(1, b"")) or version
        self.kind = text_of(meta.get(2, b"")) or kind
        self._message = fields.get(2, b"")

    def decoded(self, models: Models) -> JSON:
        """Return the object in the form of its JSON; raises ProtobufError."""
        name = models.find(self.version, self.kind)
        if name is None:
            raise ProtobufError(
                f'no kind "{self.kind}" is registered for version "{self.version}" in '
                'scheme "pkg/api/legacyscheme/scheme.go:30"'
            )
        obj = _decoder(models).message(name, self._message)
        return {"apiVersion": self.version, "kind": self.kind, **obj}


def _contents(data: bytes, message: str, names: dict[int, str]) -> dict[int, bytes]:
    """Return the fields of a message that has only texts and messages."""
    found = {}
    for number, wire, content in read_fields(data, message):
        if number in names:
            if wire != BYTES:
                msg = f"proto: wrong wireType = {wire} for field {names[number]}"
                raise ProtobufError(msg)
            found[number] = content
    return found


def decode(body: bytes, models: Models) -> JSON:
    """Return the object in a body, in the form of its JSON; raises ProtobufError."""
    return Envelope(body).decoded(models)


def encode(obj: JSON, models: Models) -> bytes | None:
    """Return an object with its envelope; `None` if its kind has no model.

    Raises ProtobufError for a value of a type that the model does not allow.
    """
    version, kind = obj.get("apiVersion", ""), obj.get("kind", "")
    name = models.find(version, kind)
    if name is None:
        return None
    try:
        message = _encoder(models).message(name, obj)
    except (AttributeError, TypeError, ValueError) as error:
        msg = f"{kind} of {version} has a value of a wrong type: {error}"
        raise ProtobufError(msg) from None
    except RecursionError:
        msg = f"{kind} of {version} is nested too deeply for protobuf"
        raise ProtobufError(msg) from None
    meta = write_text(1, version) + write_text(2, kind)
    return b"".join(
        (
            *(MAGIC, write_bytes(1, meta), write_bytes(2, message)),
            *(write_bytes(3, b""), write_bytes(4, b"")),
        )
    )


@cache
def _decoder(models: Models) -> Decoder:
    return Decoder(models)


@cache
def _encoder(models: Models) -> Encoder:
    return Encoder(models)


def encode_event(event_type: str, obj: bytes) -> bytes:
    """Return a frame of a watch: the length, and a WatchEvent with the object."""
    event = write_text(1, event_type) + write_bytes(2, write_bytes(1, obj))
    return struct.pack(">I", len(event)) + event
