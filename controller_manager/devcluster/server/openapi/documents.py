"""OpenAPI documents, which kubectl uses to explain and validate.

The first request for a document builds it. A new custom resource changes only the
documents that describe it.
"""

import hashlib
from typing import Final, NamedTuple

import msgspec

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Request, Response
from controller_manager.devcluster.server.http.negotiation import header
from controller_manager.devcluster.server.http.responses import (
    JSON_HEADERS,
    no_such_path,
    unless_known,
)
from controller_manager.devcluster.server.rest.kind import Catalogue, Kind
from controller_manager.version import KUBERNETES_VERSION

from .definitions import Schemas
from .paths import Paths
from .protobuf import MEDIA_TYPE, encode_document

_INFO: Final = {"title": "Kubernetes", "version": KUBERNETES_VERSION}

GroupVersions = dict[tuple[str, str], list[Kind]]


class _Encoded(NamedTuple):
    """A document, and the kinds that it describes."""

    kinds: GroupVersions
    body: bytes


class OpenAPI:
    """Answers under ``/openapi``."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._generation = catalogue.generation
        self._documents: dict[str, _Encoded] = {}
        self._built_in: tuple[GroupVersions, JSON] = ({}, {})
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
        """Forget the documents whose kinds are others now."""
        if self._generation != self._catalogue.generation:
            self._generation = self._catalogue.generation
            self._documents = {
                key: each
                for key, each in self._documents.items()
                if each.kinds == self._described_by(key.removesuffix(" protobuf"))
            }

    def _described_by(self, name: str) -> GroupVersions | None:
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

    def _group_versions(self) -> GroupVersions:
        return {
            each: self._catalogue.kinds(*each) or []
            for each in self._catalogue.group_versions()
        }

    def _encode(self, key: str, kinds: GroupVersions) -> bytes:
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
            self._built_in_protobuf = self._built_in_protobuf or encode_document(
                built_in
            )
            return self._built_in_protobuf + encode_document(custom)
        parts = ("paths", "definitions", "parameters")
        merged = {each: {**built_in[each], **custom[each]} for each in parts}
        return msgspec.json.encode({**built_in, **merged})

    def _version_2_of_server(self, kinds: GroupVersions) -> JSON:
        """Return the document of the kinds that are no custom resources."""
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


def _of_server(kinds: GroupVersions) -> GroupVersions:
    """Return the group versions that have no custom resources."""
    return {
        group_version: each
        for group_version, each in kinds.items()
        if not any(kind.is_custom for kind in each)
    }


def _version_2(kinds: GroupVersions, schemas: Schemas) -> JSON:
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
