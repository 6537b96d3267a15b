"""The OpenAPI v2 document in protobuf, the only form that kubectl reads.

Field numbers are those of gnostic's OpenAPIv2.proto.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.wire import (
    write_bytes,
    write_number,
    write_text,
)

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
    parameters = b"".join(
        write_bytes(1, _named(name, _parameter(parameter)))
        for name, parameter in document["parameters"].items()
    )
    return b"".join(
        (
            write_text(1, "2.0"),
            write_bytes(2, info),
            write_bytes(8, paths),
            write_bytes(9, definitions),
            write_bytes(10, parameters),
        )
    )


def _named(name: str, value: bytes) -> bytes:
    return write_text(1, name) + write_bytes(2, value)


def _extensions(number: int, obj: JSON) -> bytes:
    """Encode extensions; their values are YAML, and JSON is valid YAML."""
    return b"".join(
        write_bytes(number, _named(name, write_bytes(2, msgspec.json.encode(value))))
        for name, value in obj.items()
        if name.startswith(_EXTENSION)
    )


def _path_item(item: JSON) -> bytes:
    numbers = {"get": 2, "put": 3, "post": 4, "delete": 5, "patch": 8}
    operations = b"".join(
        write_bytes(number, _operation(item[method]))
        for method, number in numbers.items()
        if method in item
    )
    return operations + _parameters(9, item.get("parameters", ()))


def _operation(operation: JSON) -> bytes:
    return b"".join(
        (
            *_texts(1, operation["tags"]),
            write_text(3, operation["description"]),
            write_text(5, operation["operationId"]),
            *_texts(6, operation["produces"]),
            *_texts(7, operation["consumes"]),
            _parameters(8, operation.get("parameters", ())),
            write_bytes(9, _responses(operation["responses"])),
            *_texts(10, operation["schemes"]),
            _extensions(13, operation),
        )
    )


def _responses(responses: JSON) -> bytes:
    found = []
    for code, response in responses.items():
        content = write_text(1, response["description"])
        if schema := response.get("schema"):
            content += write_bytes(2, write_bytes(1, _schema(schema)))
        found.append(write_bytes(1, _named(code, write_bytes(1, content))))
    return b"".join(found)


def _parameters(number: int, parameters: Iterable[JSON]) -> bytes:
    """Encode parameters, or references to them."""
    return b"".join(
        write_bytes(
            number,
            write_bytes(2, write_text(1, each["$ref"]))
            if "$ref" in each
            else write_bytes(1, _parameter(each)),
        )
        for each in parameters
    )


def _parameter(parameter: JSON) -> bytes:
    required = write_number(1, 1) if parameter.get("required") else b""
    if parameter["in"] == "body":
        body = write_text(2, "body") + write_text(3, "body")
        body += write_number(4, 1) if required else b""
        return write_bytes(1, body + write_bytes(5, _schema(parameter["schema"])))
    content = b"".join(
        (
            required,
            write_text(2, parameter["in"]),
            write_text(3, parameter["description"]),
            write_text(4, parameter["name"]),
        )
    )
    if parameter["in"] == "path":
        return write_bytes(
            2, write_bytes(4, content + write_text(5, parameter["type"]))
        )
    return write_bytes(2, write_bytes(3, content + write_text(6, parameter["type"])))


def _schema(schema: JSON) -> bytes:
    parts: list[bytes] = [
        write_text(1, schema.get("$ref", "")),
        write_text(2, schema.get("format", "")),
        write_text(4, schema.get("description", "")),
        *_texts(19, schema.get("required", ())),
    ]
    if (values := schema.get("additionalProperties")) is not None:
        others = write_number(2, 1) if values is True else b""
        others = write_bytes(1, _schema(values)) if isinstance(values, dict) else others
        parts.append(write_bytes(21, others))
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
