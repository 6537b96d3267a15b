"""Objects of every kind can be sent and received as protobuf."""

import pytest

from controller_manager.devcluster.scheme.models import built_in
from controller_manager.devcluster.scheme.protobuf import (
    MAGIC,
    decode,
    encode,
    encode_event,
)
from controller_manager.devcluster.scheme.protobuf_decoder import (
    BYTES,
    ProtobufError,
    read_fields,
    write_bytes,
    write_number,
    write_text,
    write_varint,
)
from tests.devcluster.rows import parsed

MODELS = built_in()


def test_a_field_that_the_model_does_not_have_is_skipped() -> None:
    message = write_bytes(1, write_text(1, "c")) + write_bytes(99, b"x")
    assert decode(_enveloped("ConfigMap", message), MODELS)["metadata"] == {"name": "c"}


def test_an_object_of_an_unknown_kind_has_no_protobuf() -> None:
    assert encode({"apiVersion": "example.com/v1", "kind": "Tree"}, MODELS) is None


def test_a_value_of_a_wrong_type_is_refused_by_the_encoder() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": 1}]}}
    with pytest.raises(ProtobufError, match="Pod of v1 has a value of a wrong type"):
        encode(pod, MODELS)


def test_a_frame_of_a_watch_has_a_length_and_an_event() -> None:
    """The object in it has an envelope of its own."""
    frame = encode_event("ADDED", b"object")
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert list(read_fields(frame[4:])) == [
        (1, BYTES, b"ADDED"),
        (2, BYTES, write_bytes(1, b"object")),
    ]


def _enveloped(kind: str, message: bytes, version: str = "v1") -> bytes:
    meta = write_text(1, version) + write_text(2, kind)
    return MAGIC + write_bytes(1, meta) + write_bytes(2, message)


def test_a_message_can_stand_for_its_fields() -> None:
    """As the source of a volume, which JSON shows without a level of its own."""
    source = write_bytes(10, write_text(1, "claim") + write_varint(2 << 3) + b"\1")
    volume = write_text(1, "data") + write_bytes(2, source)
    template = write_bytes(2, write_bytes(1, volume))
    message = write_bytes(2, write_bytes(3, template))
    decoded = decode(_enveloped("Deployment", message, "apps/v1"), MODELS)
    assert decoded["spec"]["template"]["spec"]["volumes"] == [
        {
            "name": "data",
            "persistentVolumeClaim": {"claimName": "claim", "readOnly": True},
        }
    ]


def test_protobuf_becomes_what_json_would_be() -> None:
    entry = write_text(1, "k") + write_text(2, "v")
    metadata = write_text(1, "c") + write_bytes(11, entry)
    message = write_bytes(1, metadata) + write_bytes(2, entry)
    assert decode(_enveloped("ConfigMap", message), MODELS) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c", "labels": {"k": "v"}},
        "data": {"k": "v"},
    }
    spec = write_varint(1 << 3) + write_varint(2**64 - 5)
    decoded = decode(_enveloped("Deployment", write_bytes(2, spec), "apps/v1"), MODELS)
    assert decoded["spec"] == {"replicas": -5}


def test_the_managers_of_fields_are_json_within_protobuf() -> None:
    """As a Go client sends an object back that it has read."""
    fields = write_bytes(7, write_text(1, '{"f:data":{"f:k":{}}}'))
    entry = write_text(1, "kubectl") + write_text(2, "Update") + fields
    message = write_bytes(1, write_text(1, "c") + write_bytes(17, entry))
    decoded = decode(_enveloped("ConfigMap", message), MODELS)
    assert decoded["metadata"]["managedFields"] == [
        {
            "manager": "kubectl",
            "operation": "Update",
            "fieldsV1": {"f:data": {"f:k": {}}},
        }
    ]
    wrong = write_bytes(7, write_text(1, "{"))
    message = write_bytes(1, write_bytes(17, wrong))
    with pytest.raises(ProtobufError, match="a field has no JSON"):
        decode(_enveloped("ConfigMap", message), MODELS)


def test_a_review_of_access_is_read() -> None:
    requirement = write_text(1, "a") + write_text(2, "In") + write_text(3, "b")
    attributes = write_text(2, "list") + write_bytes(9, write_bytes(2, requirement))
    value = write_text(1, "x") + write_text(1, "y")
    extra = write_text(1, "scopes") + write_bytes(2, value)
    spec = write_bytes(1, attributes) + write_text(3, "jane") + write_bytes(5, extra)
    body = _enveloped(
        "SubjectAccessReview", write_bytes(2, spec), "authorization.k8s.io/v1"
    )
    assert decode(body, MODELS)["spec"] == parsed("""
        resourceAttributes:
          verb: list
          labelSelector: {requirements: [{key: a, operator: In, values: [b]}]}
        user: jane
        extra: {scopes: [x, y]}""")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"nonsense",
        MAGIC + b"\x0a\xff",
        MAGIC + write_bytes(2, b""),
        _enveloped("Unheard", b"\x0a\x00"),
        _enveloped("ConfigMap", write_number(1, 1)),
        _enveloped("Pod", write_bytes(2, write_bytes(5, b"text"))),
    ],
)
def test_protobuf_that_is_not_understood_is_refused(body: bytes) -> None:
    with pytest.raises(ProtobufError):
        decode(body, MODELS)


def test_a_schema_that_is_too_deep_is_refused_by_the_encoder() -> None:
    schema: dict[str, object] = {"type": "string"}
    for _ in range(3000):
        schema = {"properties": {"a": schema}}
    spec = {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]}
    kind = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    with pytest.raises(ProtobufError, match="nested too deeply"):
        encode({**kind, "spec": spec}, MODELS)
