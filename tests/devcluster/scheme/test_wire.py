"""Unusual messages are read, and broken ones refused, as Go's code does it."""

import random
from contextlib import suppress

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.models import built_in
from controller_manager.devcluster.scheme.protobuf import MAGIC, decode, encode
from controller_manager.devcluster.scheme.protobuf_decoder import (
    ProtobufError,
    write_bytes,
    write_number,
    write_text,
    write_varint,
)
from tests.devcluster.rows import parsed

MODELS = built_in()


def enveloped(message: bytes, kind: str = "ConfigMap", version: str = "v1") -> bytes:
    meta = write_text(1, version) + write_text(2, kind)
    return MAGIC + write_bytes(1, meta) + write_bytes(2, message)


def decoded(message: bytes, kind: str = "ConfigMap", version: str = "v1") -> JSON:
    """Return the fields of an object, without those of its envelope."""
    obj = decode(enveloped(message, kind, version), MODELS)
    return {name: obj[name] for name in obj if name not in ("apiVersion", "kind")}


def tag(number: int, wire: int) -> bytes:
    return write_varint(number << 3 | wire)


UNKNOWN_GROUP = tag(99, 3) + write_text(1, "x") + tag(1, 3) + tag(1, 4) + tag(99, 4)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (b"\x80", "unexpected EOF"),
        (b"\x80" * 10 + b"\x01", "proto: integer overflow"),
        (tag(1, 2) + b"\x05abc", "unexpected EOF"),
        (tag(99, 2) + b"\x05abc", "unexpected EOF"),
        (tag(99, 1) + b"1234567", "unexpected EOF"),
        (tag(99, 5) + b"123", "unexpected EOF"),
        (tag(99, 0) + b"\xff", "unexpected EOF"),
        (tag(99, 0) + b"\xff" * 11, "proto: integer overflow"),
        (tag(1, 2) + write_varint(1 << 40), "unexpected EOF"),
        (
            tag(1, 2) + write_varint(-1),
            "proto: negative length found during unmarshaling",
        ),
        (b"\x02\x00", "proto: ConfigMap: illegal tag 0 (wire type 2)"),
        (
            tag(1 << 31, 2) + b"\0",
            "proto: ConfigMap: illegal tag -2147483648 (wire type 2)",
        ),
        (tag(1, 4), "proto: ConfigMap: wiretype end group for non-group"),
        (tag(99, 3), "unexpected EOF"),
        (tag(99, 3) * 9 + tag(99, 4) * 8, "unexpected EOF"),
        (tag(99, 6), "proto: illegal wireType 6"),
        (tag(99, 7), "proto: illegal wireType 7"),
        (tag(99, 3) + tag(1, 6), "proto: illegal wireType 6"),
        (write_number(1, 1), "proto: wrong wireType = 0 for field Metadata"),
        (tag(2, 3) + tag(2, 4), "proto: wrong wireType = 3 for field Data"),
        (tag(2, 6), "proto: wrong wireType = 6 for field Data"),
        (write_bytes(4, b""), "proto: wrong wireType = 2 for field Immutable"),
        (tag(4, 5) + b"1234", "proto: wrong wireType = 5 for field Immutable"),
    ],
)
def test_a_broken_message_is_refused_with_the_words_of_go(
    message: bytes, expected: str
) -> None:
    with pytest.raises(ProtobufError) as raised:
        decode(enveloped(message), MODELS)
    assert str(raised.value) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", "empty data"),
        (
            b"{}",
            (
                "provided data does not appear to be a protobuf message, expected "
                "prefix [107 56 115 0]"
            ),
        ),
        (MAGIC, "empty body"),
        (MAGIC + b"\x0a\xff", "unexpected EOF"),
        (MAGIC + write_number(2, 1), "proto: wrong wireType = 0 for field Raw"),
        (MAGIC + b"\x02\x00", "proto: Unknown: illegal tag 0 (wire type 2)"),
    ],
)
def test_a_broken_envelope_is_refused_with_the_words_of_go(
    body: bytes, expected: str
) -> None:
    """Before anything in it is read."""
    with pytest.raises(ProtobufError) as raised:
        decode(body, MODELS)
    assert str(raised.value) == expected


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (write_bytes(99, b"x") + write_number(98, 1) + UNKNOWN_GROUP, {}),
        (tag(99, 3) * 10_000 + tag(99, 4) * 10_000, {}),
        (write_number(4, 1) + write_number(4, 0), {"immutable": False}),
        (write_number(4, 7), {"immutable": True}),
        (
            write_bytes(1, write_text(1, "a") + write_text(3, "n"))
            + write_bytes(1, write_text(1, "b")),
            {"metadata": {"name": "b", "namespace": "n"}},
        ),
        (write_bytes(2, b""), {"data": {"": ""}}),
        (write_bytes(2, write_text(1, "k")), {"data": {"k": ""}}),
        (write_bytes(2, write_text(2, "v")), {"data": {"": "v"}}),
        (
            write_bytes(2, write_text(2, "v") + write_text(1, "k") + UNKNOWN_GROUP),
            {"data": {"k": "v"}},
        ),
        (
            write_bytes(2, write_text(1, "k") + write_text(2, "v"))
            + write_bytes(2, write_text(1, "k") + write_text(2, "w")),
            {"data": {"k": "w"}},
        ),
        (write_bytes(3, write_text(1, "k")), {"binaryData": {"k": ""}}),
        (
            write_bytes(2, write_bytes(1, b"\xff") + write_bytes(2, b"a\xe2\x82b")),
            {"data": {"\ufffd": "a\ufffd\ufffdb"}},
        ),
    ],
)
def test_an_unusual_message_is_read_as_go_reads_it(
    message: bytes, expected: JSON
) -> None:
    assert decoded(message) == expected


def test_numbers_have_the_bits_of_their_type() -> None:
    spec = write_number(1, (1 << 32) + 5) + write_number(5, -1)
    assert decoded(write_bytes(2, spec), "Deployment", "apps/v1") == {
        "spec": {"replicas": 5, "minReadySeconds": -1}
    }
    meta = write_number(7, (1 << 63) - 1)
    assert decoded(write_bytes(1, meta)) == {"metadata": {"generation": (1 << 63) - 1}}


def test_the_numbers_of_a_list_stand_alone_or_packed() -> None:
    groups = write_number(4, 1) + write_bytes(4, b"\x02\x83\x01") + write_number(4, 3)
    message = write_bytes(2, write_bytes(14, groups))
    wanted = {"spec": {"securityContext": {"supplementalGroups": [1, 2, 131, 3]}}}
    assert decoded(message, "Pod") == wanted
    broken = write_bytes(2, write_bytes(14, write_bytes(4, b"\x01\x83")))
    with pytest.raises(ProtobufError, match="unexpected EOF"):
        decode(enveloped(broken, "Pod"), MODELS)


def test_a_message_that_is_nested_too_deeply_is_refused() -> None:
    """Long before Python's stack ends."""
    schema = b""
    for _ in range(10_000):
        schema = write_bytes(26, schema)  # the field `not`
    version = write_bytes(4, write_bytes(1, schema))
    message = write_bytes(2, write_bytes(7, version))
    body = enveloped(message, "CustomResourceDefinition", "apiextensions.k8s.io/v1")
    with pytest.raises(ProtobufError, match="nested too deeply"):
        decode(body, MODELS)


def damaged(seed: int) -> bytes:
    """Return an encoded pod with some bytes changed, cut off or repeated."""
    rng = random.Random(seed)
    pod = parsed("""
        metadata: {name: a, creationTimestamp: '2026-01-01T00:00:00Z'}
        spec:
          containers:
            - name: c
              ports: [{containerPort: 80}]
              resources: {limits: {cpu: '1'}}
              livenessProbe: {httpGet: {port: http}}
          securityContext: {supplementalGroups: [1, 2]}""")
    encoded = encode({"apiVersion": "v1", "kind": "Pod", **pod}, MODELS)
    assert encoded is not None
    body = bytearray(encoded)
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(len(MAGIC), len(body))
        match rng.randrange(4):
            case 0:
                body[place] = rng.randrange(256)
            case 1:
                del body[place:]
            case 2:
                body[place:place] = rng.randbytes(rng.randint(1, 9))
            case 3:
                body[place:place] = body[place : place + 20]
        if len(body) <= len(MAGIC):
            break
    return bytes(body)


@pytest.mark.parametrize("seeds", [range(150), range(150, 300)], ids=str)
def test_any_bytes_are_decoded_or_refused(seeds: range) -> None:
    for seed in seeds:
        decoded_again: JSON | None = None
        with suppress(ProtobufError):
            decoded_again = decode(damaged(seed), MODELS)
        assert decoded_again is None or decoded_again["kind"], seed
