"""Bodies in protobuf."""

import pytest

from controller_manager.devcluster.kinds.apps.deployment import KIND as DEPLOYMENT
from controller_manager.devcluster.kinds.authorization.selfsubjectaccessreview import (
    KIND as SELF_REVIEW,
)
from controller_manager.devcluster.kinds.authorization.subjectaccessreview import (
    KIND as REVIEW,
)
from controller_manager.devcluster.kinds.core.configmap import KIND as CONFIG_MAP
from controller_manager.devcluster.server.catalogue import Catalogue
from controller_manager.devcluster.server.protobuf import (
    MAGIC,
    ProtobufError,
    decode_protobuf,
    write_bytes,
    write_text,
    write_varint,
)

MESSAGES = Catalogue((CONFIG_MAP, DEPLOYMENT, REVIEW, SELF_REVIEW)).messages()


def _enveloped(kind: str, message: bytes) -> bytes:
    meta = write_text(1, "v1") + write_text(2, kind)
    return MAGIC + write_bytes(1, meta) + write_bytes(2, message)


def test_a_message_can_stand_for_its_fields() -> None:
    """As the source of a volume, which JSON shows without a level of its own."""
    source = write_bytes(10, write_text(1, "claim") + write_varint(2 << 3) + b"\1")
    volume = write_text(1, "data") + write_bytes(2, source)
    template = write_bytes(2, write_bytes(1, volume))
    message = write_bytes(2, write_bytes(3, template))
    decoded = decode_protobuf(_enveloped("Deployment", message), MESSAGES)
    assert decoded["spec"]["template"]["spec"]["volumes"] == [
        {
            "name": "data",
            "persistentVolumeClaim": {"claimName": "claim", "readOnly": True},
        }
    ]


def test_protobuf_becomes_what_json_would_be() -> None:
    """Strings, numbers, maps, bytes, quantities."""
    entry = write_text(1, "k") + write_text(2, "v")
    metadata = write_text(1, "c") + write_bytes(11, entry)
    message = write_bytes(1, metadata) + write_bytes(2, entry)
    assert decode_protobuf(_enveloped("ConfigMap", message), MESSAGES) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c", "labels": {"k": "v"}},
        "data": {"k": "v"},
    }
    spec = write_varint(1 << 3) + write_varint(2**64 - 5)
    decoded = decode_protobuf(_enveloped("Deployment", write_bytes(2, spec)), MESSAGES)
    assert decoded["spec"] == {"replicas": -5}


def test_the_managers_of_fields_are_json_within_protobuf() -> None:
    """As a Go client sends an object back that it has read."""
    fields = write_bytes(7, write_text(1, '{"f:data":{"f:k":{}}}'))
    entry = write_text(1, "kubectl") + write_text(2, "Update") + fields
    message = write_bytes(1, write_text(1, "c") + write_bytes(17, entry))
    decoded = decode_protobuf(_enveloped("ConfigMap", message), MESSAGES)
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
        decode_protobuf(_enveloped("ConfigMap", message), MESSAGES)


def test_a_review_of_access_is_read() -> None:
    """With the extra of its user, and selectors."""
    requirement = write_text(1, "a") + write_text(2, "In") + write_text(3, "b")
    attributes = write_text(2, "list") + write_bytes(9, write_bytes(2, requirement))
    value = write_text(1, "x") + write_text(1, "y")
    extra = write_text(1, "scopes") + write_bytes(2, value)
    spec = write_bytes(1, attributes) + write_text(3, "jane") + write_bytes(5, extra)
    body = _enveloped("SubjectAccessReview", write_bytes(2, spec))
    assert decode_protobuf(body, MESSAGES)["spec"] == {
        "resourceAttributes": {
            "verb": "list",
            "labelSelector": {
                "requirements": [{"key": "a", "operator": "In", "values": ["b"]}]
            },
        },
        "user": "jane",
        "extra": {"scopes": ["x", "y"]},
    }


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"nonsense",
        MAGIC + b"\x0a\xff",
        _enveloped("Unheard", b"\x0a\x00"),
        _enveloped("ConfigMap", write_bytes(99, b"x")),
    ],
)
def test_protobuf_that_is_not_understood_is_refused(body: bytes) -> None:
    """Never stored with a part missing."""
    with pytest.raises(ProtobufError):
        decode_protobuf(body, MESSAGES)
