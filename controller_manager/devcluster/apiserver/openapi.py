"""OpenAPI documents, which kubectl uses to explain and validate."""

import hashlib
from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Request, Response
from controller_manager.devcluster.scheme.protobuf_decoder import (
    write_bytes,
    write_number,
    write_text,
)
from controller_manager.version import KUBERNETES_VERSION

from .kind import Catalogue, Kind
from .negotiation import header
from .openapi_definitions import Schemas
from .openapi_paths import Paths
from .responses import JSON_HEADERS, no_such_path, unless_known

# The OpenAPI v2 document in protobuf, the only form that kubectl reads.

MEDIA_TYPE: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"

_EXTENSION: Final = "x-kubernetes-"


def _encode_document(document: JSON) -> bytes:
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


# OpenAPI documents, which kubectl uses to explain and validate.

_INFO: Final = {"title": "Kubernetes", "version": KUBERNETES_VERSION}

_GroupVersions = dict[tuple[str, str], list[Kind]]


class _Encoded(NamedTuple):
    kinds: _GroupVersions
    body: bytes


class OpenAPI:
    """Answers under ``/openapi``."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._generation = catalogue.generation
        self._documents: dict[str, _Encoded] = {}
        self._built_in: tuple[_GroupVersions, JSON] = ({}, {})
        self._built_in_protobuf = b""

    def answer(self, path: list[str], request: Request) -> Response:
        """Return the document at ``/openapi/...``, 404 if there is none."""
        self._forget_changed()
        name, accept = "/".join(path), header(request.headers, "accept")
        as_protobuf = name == "v2" and "protobuf" in accept
        key = f"{name} protobuf" if as_protobuf else name
        if name == "v3":
            body = msgspec.json.encode({"paths": self._index()})
        elif (found := self._documents.get(key)) is not None:
            body = found.body
        else:
            kinds = self._described_by(name)
            if kinds is None:
                return no_such_path()
            body = self._encode(key, kinds)
            self._documents[key] = _Encoded(kinds, body)
        headers = {"content-type": MEDIA_TYPE} if as_protobuf else JSON_HEADERS
        return unless_known(Response(200, {**headers, "vary": "Accept"}, body), request)

    def _forget_changed(self) -> None:
        if self._generation != self._catalogue.generation:
            self._generation = self._catalogue.generation
            self._documents = {
                key: each
                for key, each in self._documents.items()
                if each.kinds == self._described_by(key.removesuffix(" protobuf"))
            }

    def _described_by(self, name: str) -> _GroupVersions | None:
        """Return the kinds that a document describes, `None` if there is none."""
        match name.split("/"):
            case ["v2"]:
                return self._group_versions()
            case ["v3", "api", version]:
                group_version = ("", version)
            case ["v3", "apis", group, version]:
                group_version = (group, version)
            case _:
                return None
        kinds = self._catalogue.kinds(*group_version)
        return None if kinds is None else {group_version: kinds}

    def _group_versions(self) -> _GroupVersions:
        return {
            each: self._catalogue.kinds(*each) or []
            for each in self._catalogue.group_versions()
        }

    def _encode(self, key: str, kinds: _GroupVersions) -> bytes:
        if key.startswith("v3"):
            schemas = Schemas(3, _of_server(self._group_versions()))
            paths = Paths(schemas)
            for (group, version), each in kinds.items():
                paths.add_version(group, version, each)
            document = {
                "openapi": "3.0.0",
                "info": _INFO,
                "paths": paths.items,
                "components": {"schemas": schemas.definitions},
            }
            return msgspec.json.encode(document)
        built_in = self._version_2_of_server(kinds)
        custom = _version_2(
            {each: kinds[each] for each in kinds.keys() - _of_server(kinds).keys()},
            Schemas(2, (), known=built_in["definitions"]),
        )
        if key != "v2":  # messages that follow each other are one message
            self._built_in_protobuf = self._built_in_protobuf or _encode_document(
                built_in
            )
            return self._built_in_protobuf + _encode_document(custom)
        parts = ("paths", "definitions", "parameters")
        merged = {each: {**built_in[each], **custom[each]} for each in parts}
        return msgspec.json.encode({**built_in, **merged})

    def _version_2_of_server(self, kinds: _GroupVersions) -> JSON:
        own = _of_server(kinds)
        if self._built_in[0] != own:
            self._built_in = own, _version_2(own, Schemas(2, own))
            self._built_in_protobuf = b""
        return self._built_in[1]

    def _index(self) -> JSON:
        index = {}
        for (group, version), kinds in self._group_versions().items():
            name = f"apis/{group}/{version}" if group else f"api/{version}"
            digest = hashlib.sha256(f"{name}{KUBERNETES_VERSION}".encode())
            for kind in kinds:
                if kind.is_custom:  # the schema may change while the server runs
                    schema = kind.strategy.openapi_schema()
                    digest.update(msgspec.json.encode([kind.kind, schema]))
            index[name] = {
                "serverRelativeURL": (
                    f"/openapi/v3/{name}?hash={digest.hexdigest()[:32]}"
                )
            }
        return index


def _of_server(kinds: _GroupVersions) -> _GroupVersions:
    return {
        group_version: each
        for group_version, each in kinds.items()
        if not any(kind.is_custom for kind in each)
    }


def _version_2(kinds: _GroupVersions, schemas: Schemas) -> JSON:
    paths = Paths(schemas)
    for (group, version), each in kinds.items():
        paths.add_version(group, version, each)
    return {
        "swagger": "2.0",
        "info": _INFO,
        "paths": paths.items,
        "definitions": schemas.definitions,
        "parameters": paths.parameters,
    }
