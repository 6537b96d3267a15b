"""The OpenAPI v2 document in protobuf, the only form that kubectl reads.

Field numbers are those of gnostic's OpenAPIv2.proto.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.schema.protobuf import write_bytes, write_text

MEDIA_TYPE: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"

_EXTENSION: Final = "x-kubernetes-"


def encode_document(document: JSON) -> bytes:
    """Return a document as protobuf, without the parts that no client reads."""
    info = write_text(1, document["info"]["title"])
    info += write_text(2, document["info"]["version"])
    paths = b"".join(
        write_bytes(2, _named(path, _path_item(item)))
        for path, item in document["paths"].items()
    )
    definitions = b"".join(
        write_bytes(1, _named(name, _schema(schema)))
        for name, schema in document["definitions"].items()
    )
    return b"".join(
        (
            write_text(1, "2.0"),
            write_bytes(2, info),
            write_bytes(8, paths),
            write_bytes(9, definitions),
        )
    )


def _named(name: str, value: bytes) -> bytes:
    return write_text(1, name) + write_bytes(2, value)


def _extensions(number: int, obj: JSON) -> bytes:
    """Encode extensions; their values are YAML, and JSON is valid YAML."""
    return b"".join(
        write_bytes(
            number,
            _named(name, write_text(2, msgspec.json.encode(value).decode())),
        )
        for name, value in obj.items()
        if name.startswith(_EXTENSION)
    )


def _path_item(item: JSON) -> bytes:
    numbers = {"get": 2, "put": 3, "post": 4, "patch": 8}
    return b"".join(
        write_bytes(numbers[action], _operation(operation))
        for action, operation in item.items()
    )


def _operation(operation: JSON) -> bytes:
    parameters = b"".join(
        write_bytes(8, write_bytes(1, _query_parameter(parameter)))
        for parameter in operation["parameters"]
    )
    return (
        write_text(5, operation["operationId"])
        + parameters
        + write_bytes(9, b"")
        + _extensions(13, operation)
    )


def _query_parameter(parameter: JSON) -> bytes:
    schema = b"".join(
        (
            write_text(2, "query"),
            write_text(3, parameter["description"]),
            write_text(4, parameter["name"]),
            write_text(6, "string"),
        )
    )
    return write_bytes(2, write_bytes(3, schema))


def _schema(schema: JSON) -> bytes:
    parts: list[bytes] = [
        write_text(1, schema.get("$ref", "")),
        write_text(2, schema.get("format", "")),
        write_text(4, schema.get("description", "")),
        *_texts(19, schema.get("required", ())),
    ]
    if (values := schema.get("additionalProperties")) is not None:
        parts.append(write_bytes(21, write_bytes(1, _schema(values))))
    if kind := schema.get("type"):
        parts.append(write_bytes(22, write_text(1, kind)))
    if (items := schema.get("items")) is not None:
        parts.append(write_bytes(23, write_bytes(1, _schema(items))))
    if properties := schema.get("properties"):
        entries = b"".join(
            write_bytes(1, _named(name, _schema(each)))
            for name, each in properties.items()
        )
        parts.append(write_bytes(25, entries))
    parts.append(_extensions(31, schema))
    return b"".join(parts)


def _texts(number: int, values: Iterable[str]) -> list[bytes]:
    return [write_text(number, value) for value in values]
