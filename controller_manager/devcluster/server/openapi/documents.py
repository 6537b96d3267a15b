"""OpenAPI documents, which kubectl uses to explain and validate.

The first request builds them from the models of kubernetes_asyncio. For each path
they contain only the parts that clients read: the kind, and the parameter
``fieldValidation`` of writes, so that the server validates, not the client.
"""

import hashlib
from typing import Final

import msgspec

from controller_manager.api.json_objects import JSON
from controller_manager.client.transport import Request, Response
from controller_manager.devcluster.server.http.negotiation import header
from controller_manager.devcluster.server.http.responses import (
    JSON_HEADERS,
    no_such_path,
    unless_known,
)
from controller_manager.devcluster.server.openapi.definitions import Schemas
from controller_manager.devcluster.server.openapi.protobuf import (
    MEDIA_TYPE,
    encode_document,
)
from controller_manager.devcluster.server.rest.kind import Catalogue, Kind
from controller_manager.version import KUBERNETES_VERSION

_INFO: Final = {"title": "Kubernetes", "version": KUBERNETES_VERSION}
_PARAMETERS: Final = (
    ("dryRun", "When present, the server checks the request and stores nothing."),
    ("fieldManager", "The name of the actor that makes the change."),
    ("fieldValidation", "The treatment of unknown fields: Ignore, Warn or Strict."),
)


class OpenAPI:
    """Answers under ``/openapi``."""

    def __init__(self, catalogue: Catalogue) -> None:
        """Take the catalogue of the kinds to describe."""
        self._catalogue = catalogue
        self._documents: dict[str, bytes] = {}

    def answer(self, path: list[str], request: Request) -> Response:
        """Return the document at ``/openapi/...``, 404 if there is none."""
        name, accept = "/".join(path), header(request.headers, "accept")
        as_protobuf = name == "v2" and "protobuf" in accept
        key = f"{self._catalogue.generation} {name} {as_protobuf}"
        if key not in self._documents:
            self._documents = {
                known: each
                for known, each in self._documents.items()
                if known.startswith(f"{self._catalogue.generation} ")
            }
            document = self._document(path)
            if document is None:
                return no_such_path()
            encode = encode_document if as_protobuf else msgspec.json.encode
            self._documents[key] = encode(document)
        headers = {"content-type": MEDIA_TYPE} if as_protobuf else JSON_HEADERS
        headers = {**headers, "vary": "Accept"}
        return unless_known(Response(200, headers, self._documents[key]), request)

    def _document(self, path: list[str]) -> JSON | None:
        match path:
            case ["v2"]:
                return self._v2()
            case ["v3"]:
                return {"paths": self._index()}
            case ["v3", "api", version]:
                return self._v3("", version)
            case ["v3", "apis", group, version]:
                return self._v3(group, version)
        return None

    def _index(self) -> JSON:
        index = {}
        for group, version in self._catalogue.group_versions():
            name = f"apis/{group}/{version}" if group else f"api/{version}"
            digest = hashlib.sha256(f"{name}{KUBERNETES_VERSION}".encode())
            for kind in self._catalogue.kinds(group, version) or ():
                if kind.is_custom:  # the schema may change while the server runs
                    schema = kind.strategy.openapi_schema()
                    digest.update(msgspec.json.encode([kind.kind, schema]))
            index[name] = {
                "serverRelativeURL": (
                    f"/openapi/v3/{name}?hash={digest.hexdigest()[:32]}"
                )
            }
        return index

    def _v3(self, group: str, version: str) -> JSON | None:
        kinds = self._catalogue.kinds(group, version)
        if kinds is None:
            return None
        schemas = Schemas(kinds, "#/components/schemas/", wrap=True)
        return {
            "openapi": "3.0.0",
            "info": _INFO,
            "paths": _paths(kinds, schemas, v3=True),
            "components": {"schemas": schemas.definitions},
        }

    def _v2(self) -> JSON:
        kinds = self._catalogue.all()
        schemas = Schemas(kinds, "#/definitions/", wrap=False)
        return {
            "swagger": "2.0",
            "info": _INFO,
            "paths": _paths(kinds, schemas, v3=False),
            "definitions": schemas.definitions,
        }


def _paths(kinds: list[Kind], schemas: Schemas, *, v3: bool) -> JSON:
    paths: JSON = {}
    for kind in kinds:
        if not schemas.describes(kind):
            continue
        root = f"/apis/{kind.group}" if kind.group else "/api"
        base = f"{root}/{kind.version}"
        if kind.namespaced:
            if "list" in kind.verbs:
                paths[f"{base}/{kind.plural}"] = {"get": _reading(kind, "list")}
            base += "/namespaces/{namespace}"
        collection = paths[f"{base}/{kind.plural}"] = {}
        if "list" in kind.verbs:
            collection["get"] = _reading(kind, "list")
        if "create" in kind.verbs:
            collection["post"] = _operation(kind, "post", schemas, v3=v3)
        if kind.is_stored:
            paths[f"{base}/{kind.plural}/{{name}}"] = {
                "get": _reading(kind, "get"),
                "put": _operation(kind, "put", schemas, v3=v3),
                "patch": _operation(kind, "patch", schemas, v3=v3),
            }
    return paths


def _operation(kind: Kind, action: str, schemas: Schemas, *, v3: bool) -> JSON:
    string: JSON = {"schema": {"type": "string"}} if v3 else {"type": "string"}
    parameters = [
        {"name": name, "in": "query", "description": text, **string}
        for name, text in _PARAMETERS
    ]
    schema = schemas.reference(kind)
    success = (
        {"description": "OK", "content": {"application/json": {"schema": schema}}}
        if v3
        else {"description": "OK", "schema": schema}
    )
    return {
        **_reading(kind, action),
        "parameters": parameters,
        "responses": {"200": success},
    }


def _reading(kind: Kind, action: str) -> JSON:
    """Return an operation from which kubectl reads the kind of a path."""
    return {
        "operationId": f"{action}{kind.kind}",
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": {
            "group": kind.group,
            "kind": kind.kind,
            "version": kind.version,
        },
        "parameters": [],
        "responses": {"200": {"description": "OK"}},
    }
