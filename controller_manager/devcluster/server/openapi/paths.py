"""The paths of a document, in the forms of both versions of OpenAPI."""

import hashlib
from base64 import urlsafe_b64encode
from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.models import DELETE_OPTIONS
from controller_manager.devcluster.server.rest.kind import Kind

from .definitions import Schemas
from .operations import (
    WATCH_EVENT,
    Operation,
    base_path,
    group_name,
    operations_by_path,
)
from .parameters import in_version_3, path_parameters, query_parameters

_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1"
_JSON: Final = "application/json"
_PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
_YAML: Final = "application/yaml"
_FORMS: Final = (_JSON, _YAML, _PROTOBUF)
_ANY: Final = "*/*"
_READ: Final = ((200, "OK"),)
_UNAUTHORIZED: Final = {"401": {"description": "Unauthorized"}}
_CODES: Final = {
    "create": ((200, "OK"), (201, "Created"), (202, "Accepted")),
    "delete": ((200, "OK"), (202, "Accepted")),
    "patch": ((200, "OK"), (201, "Created")),
    "update": ((200, "OK"), (201, "Created")),
}
_PATCHES: Final = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
)
_STRATEGIC: Final = "application/strategic-merge-patch+json"
_QUERIES: Final = {"watch": "list", "watchlist": "list"}
"""Verbs with the parameters of another one."""


class _Exchange(NamedTuple):
    """The body of a request and the answer, with their media types."""

    body: JSON | None
    accepted: tuple[str, ...]
    codes: tuple[tuple[int, str], ...]
    answer: JSON
    sent: tuple[str, ...]


class Paths:
    """The paths of one document.

    A document of version 2 has its parameters in one place, and refers to them.
    """

    def __init__(self, schemas: Schemas) -> None:
        self.items: JSON = {}
        self.parameters: JSON = {}
        self._schemas = schemas
        self._references: dict[str, JSON] = {}

    def add_version(self, group: str, version: str, kinds: Iterable[Kind]) -> None:
        """Describe a group version and its kinds.

        That of custom resources has no path of its own in the documents.
        """
        kinds = list(kinds)
        if not any(kind.is_custom for kind in kinds):
            self._add_resources(group, version)
        for kind in kinds:
            for path, operations in operations_by_path(kind):
                self._add(path, kind, operations)

    def _add_resources(self, group: str, version: str) -> None:
        schema = self._schemas.of_model(f"{_META}.APIResourceList")
        name = group_name(group)
        operation_id = f"get{name[0].upper()}{name[1:]}{version.capitalize()}"
        exchange = _Exchange(None, (_ANY,), _READ, schema, _FORMS)
        operation = {
            "description": "get available resources",
            "operationId": f"{operation_id}APIResources",
            "tags": [f"{name}_{version}"],
            **self._exchanged(exchange),
        }
        self.items[f"{base_path(group, version)}/"] = {"get": operation}

    def _add(self, path: str, kind: Kind, operations: list[Operation]) -> None:
        """Describe a path; parameters of its only operation are those of the path."""
        common = path_parameters(path, kind.kind)
        item: JSON = {}
        for each in operations:
            action = each.action
            query = query_parameters(_QUERIES.get(action, action))
            if len(operations) == 1:
                common, query = [*common, *query], []
            item[each.method] = self._operation(each, query)
        common.sort(key=lambda each: (each["name"], each["in"]))
        item["parameters"] = self._shown(common)
        self.items[path] = item

    def _operation(self, operation: Operation, query: list[JSON]) -> JSON:
        kind = operation.kind
        codes = _CODES.get(operation.verb, _READ)
        exchange = _Exchange(
            self._body(operation),
            _accepted(operation),
            _READ if operation.connects else codes,
            self._answer(operation),
            _sent(operation),
        )
        found: JSON = {
            "description": operation.description,
            "operationId": operation.operation_id,
            **self._exchanged(exchange),
            "tags": [f"{group_name(kind.group)}_{kind.version}"],
            "x-kubernetes-action": operation.action,
            "x-kubernetes-group-version-kind": operation.group_version_kind,
        }
        if query:
            body = found.get("parameters", ())
            found["parameters"] = [*self._shown(query), *body]
        return found

    def _object(self, operation: Operation) -> JSON:
        if model := operation.model:
            return self._schemas.of_model(model)
        return self._schemas.of_kind(operation.kind)

    def _body(self, operation: Operation) -> JSON | None:
        match operation.verb:
            case _ if operation.connects:
                return None
            case "create" | "update":
                return self._object(operation)
            case "patch":
                return self._schemas.of_model(f"{_META}.Patch")
            case "delete" | "deletecollection":
                return self._schemas.of_model(DELETE_OPTIONS)
        return None

    def _answer(self, operation: Operation) -> JSON:
        kind = operation.kind
        if operation.connects or operation.is_text:
            return {"type": "string"}
        match operation.verb:
            case "list":
                return self._schemas.of_list(kind)
            case "watch" | "watchlist":
                return self._schemas.of_model(WATCH_EVENT)
            case "deletecollection":
                return self._schemas.of_model(f"{_META}.Status")
            case "delete" if not kind.strategy.returns_deleted:
                return self._schemas.of_model(f"{_META}.Status")
        return self._object(operation)

    def _exchanged(self, exchange: _Exchange) -> JSON:
        if self._schemas.version == 3:
            return _in_version_3(exchange)
        return _in_version_2(exchange)

    def _shown(self, parameters: list[JSON]) -> list[JSON]:
        if self._schemas.version == 3:
            return [in_version_3(each) for each in parameters]
        return [self._shared(each) for each in parameters]

    def _shared(self, parameter: JSON) -> JSON:
        """Return a reference to a parameter, which the document has once."""
        key = f"{parameter['name']} {parameter['description']}"
        if key not in self._references:
            digest = hashlib.sha256(msgspec.json.encode(parameter)).digest()
            name = f"{parameter['name']}-{urlsafe_b64encode(digest)[:8].decode()}"
            self.parameters[name] = parameter
            self._references[key] = {"$ref": f"#/parameters/{name}"}
        return self._references[key]


def _in_version_2(exchange: _Exchange) -> JSON:
    found: JSON = {
        "consumes": exchange.accepted,
        "produces": exchange.sent,
        "responses": {
            **{
                f"{code}": {"description": text, "schema": exchange.answer}
                for code, text in exchange.codes
            },
            **_UNAUTHORIZED,
        },
        "schemes": ["https"],
    }
    if exchange.body is not None:
        body = {"in": "body", "name": "body", "schema": exchange.body}
        found["parameters"] = [{**body, **_required(exchange.body)}]
    return found


def _in_version_3(exchange: _Exchange) -> JSON:
    content = {each: {"schema": exchange.answer} for each in exchange.sent}
    found: JSON = {
        "responses": {
            **{
                f"{code}": {"description": text, "content": content}
                for code, text in exchange.codes
            },
            **_UNAUTHORIZED,
        },
    }
    if exchange.body is not None:
        sendable = {each: {"schema": exchange.body} for each in exchange.accepted}
        found["requestBody"] = {"content": sendable, **_required(exchange.body)}
    return found


def _required(body: JSON) -> JSON:
    """Return the field of a body that says that a request needs it."""
    return {} if body["$ref"].endswith(f"/{DELETE_OPTIONS}") else {"required": True}


def _accepted(operation: Operation) -> tuple[str, ...]:
    """Return the media types that an operation accepts."""
    if operation.verb != "patch" or operation.connects:
        return (_JSON, _YAML) if operation.kind.is_custom else (_ANY,)
    if operation.kind.strategy.merges_strategically:
        return (*_PATCHES, _STRATEGIC)
    return _PATCHES


def _sent(operation: Operation) -> tuple[str, ...]:
    """Return the media types of answers."""
    if operation.connects:
        return (_ANY,)
    if operation.is_text:
        return ("text/plain", *_FORMS)
    if operation.kind.is_custom:
        return (_JSON, _YAML)
    if operation.verb in ("list", "watch", "watchlist"):
        return (*_FORMS, *(f"{each};stream=watch" for each in (_JSON, _PROTOBUF)))
    return _FORMS
