"""The encodings in which clients send objects and read answers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.negotiation import JSON_TYPE, YAML_TYPE
from controller_manager.devcluster.scheme.decoding import decode_yaml, encode_yaml
from controller_manager.devcluster.scheme.models import built_in
from controller_manager.devcluster.scheme.protobuf import MEDIA_TYPE, decode, encode
from controller_manager.devcluster.scheme.protobuf_decoder import read_fields


@dataclass(frozen=True)
class Encoding:
    """Encodes bodies, and decodes answers and the events of watches."""

    media_type: str
    encode: Callable[[JSON], bytes]
    decode: Callable[[bytes], Any]
    events: Callable[[bytes], list[tuple[str, JSON]]]
    stream: str


def _protobuf(obj: JSON) -> bytes:
    encoded = encode(obj, built_in())
    assert encoded is not None
    return encoded


def _from_protobuf(body: bytes) -> JSON:
    return decode(body, built_in())


def _frames(body: bytes) -> list[tuple[str, JSON]]:
    found = []
    while body:
        length = int.from_bytes(body[:4], "big")
        (_, _, name), (_, _, raw) = read_fields(body[4 : 4 + length])
        ((_, _, obj),) = read_fields(raw)
        found.append((name.decode(), _from_protobuf(obj)))
        body = body[4 + length :]
    return found


def _lines(body: bytes) -> list[tuple[str, JSON]]:
    events = (msgspec.json.decode(line) for line in body.splitlines())
    return [(each["type"], each["object"]) for each in events]


ENCODINGS = {
    "json": Encoding(
        JSON_TYPE, msgspec.json.encode, msgspec.json.decode, _lines, JSON_TYPE
    ),
    "yaml": Encoding(
        YAML_TYPE,
        lambda obj: encode_yaml(msgspec.json.encode(obj)),
        decode_yaml,
        _lines,
        JSON_TYPE,
    ),
    "protobuf": Encoding(
        MEDIA_TYPE, _protobuf, _from_protobuf, _frames, f"{MEDIA_TYPE};stream=watch"
    ),
}
