"""OpenAPI documents: what kubectl explains and validates by.

They are made from the models of kubernetes_asyncio when they are first asked
for. Paths are listed as far as clients look at them: to see that writes take
the parameter ``fieldValidation``, so that the server validates and not they.
"""

import hashlib
from typing import Any, Final

import msgspec

from controller_manager.client.transport import Response
from controller_manager.devcluster.kinds import Catalogue, Kind
from controller_manager.devcluster.openapi_protobuf import (
    MEDIA_TYPE,
    encode_document,
)
from controller_manager.devcluster.patch import MERGED_PRIMITIVES, merge_key
from controller_manager.devcluster.schema import Field, Type, fields_of, go_type
from controller_manager.version import KUBERNETES_VERSION

JSON = dict[str, Any]

_HEADERS: Final = {"content-type": "application/json"}
_TEXT: Final = {"content-type": "text/plain; charset=utf-8"}
_INFO: Final = {"title": "Kubernetes", "version": KUBERNETES_VERSION}
_SCALARS: Final = {
    "int": {"type": "integer", "format": "int32"},
    "bool": {"type": "boolean"},
    "str": {"type": "string"},
    "float": {"type": "number", "format": "double"},
    "datetime": {"type": "string", "format": "date-time"},
}
_PARAMETERS: Final = (
    ("dryRun", "When present, indicates that nothing is to be stored."),
    ("fieldManager", "A name for whoever makes the change."),
    ("fieldValidation", "What to do about unknown fields: Ignore, Warn or Strict."),
)
_META: Final = frozenset(
    (
        "V1DeleteOptions",
        "V1LabelSelector",
        "V1LabelSelectorRequirement",
        "V1ListMeta",
        "V1ManagedFieldsEntry",
        "V1ObjectMeta",
        "V1OwnerReference",
        "V1Status",
    )
)


class OpenAPI:
    """Answers under ``/openapi``."""

    def __init__(self, catalogue: Catalogue) -> None:
        """Take the kinds to describe."""
        self._catalogue = catalogue
        self._documents: dict[str, bytes] = {}

    def answer(self, path: list[str], accept: str) -> Response:
        """Return the document at ``/openapi/...``, 404 if there is none."""
        name = "/".join(path)
        as_protobuf = name == "v2" and "protobuf" in accept
        key = f"{self._catalogue.generation} {name} {as_protobuf}"
        if key not in self._documents:
            document = self._document(path)
            if document is None:
                return Response(404, _TEXT, b"404 page not found\n")
            encode = encode_document if as_protobuf else msgspec.json.encode
            self._documents[key] = encode(document)
        headers = {"content-type": MEDIA_TYPE} if as_protobuf else _HEADERS
        return Response(200, headers, self._documents[key])

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
            digest = hashlib.sha256(f"{name}{KUBERNETES_VERSION}".encode()).hexdigest()
            index[name] = {
                "serverRelativeURL": f"/openapi/v3/{name}?hash={digest[:32]}"
            }
        return index

    def _v3(self, group: str, version: str) -> JSON | None:
        kinds = self._catalogue.kinds(group, version)
        if kinds is None:
            return None
        schemas: JSON = {}
        for kind in kinds:
            _add_kind(schemas, kind, "#/components/schemas/", wrap=True)
        return {
            "openapi": "3.0.0",
            "info": _INFO,
            "paths": _paths(kinds, "#/components/schemas/", v3=True),
            "components": {"schemas": schemas},
        }

    def _v2(self) -> JSON:
        definitions: JSON = {}
        kinds = self._catalogue.all()
        for kind in kinds:
            _add_kind(definitions, kind, "#/definitions/", wrap=False)
        return {
            "swagger": "2.0",
            "info": _INFO,
            "paths": _paths(kinds, "#/definitions/", v3=False),
            "definitions": definitions,
        }


def _definition_name(model: str, group: str) -> str:
    if model in _META:
        return f"io.k8s.apimachinery.pkg.apis.meta.v1.{go_type(model)}"
    package = group.partition(".")[0] or "core"
    return f"io.k8s.api.{package}.v1.{go_type(model)}"


_OWN_MODELS: Final = {
    "apps": (
        "V1ControllerRevision",
        "V1DaemonSet",
        "V1Deployment",
        "V1ReplicaSet",
        "V1Rolling",
        "V1StatefulSet",
    ),
    "apiextensions.k8s.io": (
        "V1CustomResource",
        "V1ExternalDocumentation",
        "V1JSONSchemaProps",
        "V1SelectableField",
        "V1ValidationRule",
        "V1WebhookConversion",
    ),
    "authentication.k8s.io": ("V1Token", "V1UserInfo"),
    "authorization.k8s.io": ("V1Self", "V1SubjectAccess"),
    "batch": (
        "V1CronJob",
        "V1Job",
        "V1PodFailurePolicy",
        "V1SuccessPolicy",
        "V1UncountedTerminatedPods",
    ),
    "coordination.k8s.io": ("V1Lease",),
}
"""How the models of a group begin; all others are the core group's."""


def _home(model: str, group: str) -> str:
    """Return the group whose package a model is in: pods are core everywhere."""
    return group if model.startswith(_OWN_MODELS.get(group, ("-",))) else ""


def _add_kind(schemas: JSON, kind: Kind, prefix: str, *, wrap: bool) -> None:
    if not kind.model or fields_of(kind.model) is None:
        return
    name = _add_model(schemas, kind.model, kind.group, prefix, wrap=wrap)
    gvk = {"group": kind.group, "kind": kind.kind, "version": kind.version}
    schemas[name]["x-kubernetes-group-version-kind"] = [gvk]
    if kind.is_stored:
        _add_list(schemas, kind, name, prefix, wrap=wrap)


def _add_list(schemas: JSON, kind: Kind, item: str, prefix: str, *, wrap: bool) -> None:
    meta = _add_model(schemas, "V1ListMeta", "", prefix, wrap=wrap)
    schemas[f"{item}List"] = {
        "description": f"{kind.kind}List is a list of {kind.kind}.",
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "items": {"type": "array", "items": {"$ref": prefix + item}},
            "metadata": {"$ref": prefix + meta},
        },
        "x-kubernetes-group-version-kind": [
            {"group": kind.group, "kind": f"{kind.kind}List", "version": kind.version}
        ],
    }


def _add_model(
    schemas: JSON, model: str, group: str, prefix: str, *, wrap: bool
) -> str:
    """Describe a model and all it refers to; return its definition's name."""
    home = _home(model, group)
    name = _definition_name(model, home)
    if name in schemas:
        return name
    properties: JSON = {}
    schemas[name] = {
        "description": f"{go_type(model)} of the Kubernetes API.",
        "type": "object",
        "properties": properties,
    }
    for field in (fields_of(model) or {}).values():
        shape = _shape(schemas, field.type, home, prefix, wrap=wrap)
        properties[field.name] = _described(shape, field, model, wrap=wrap)
    return name


def _shape(schemas: JSON, type_: Type, group: str, prefix: str, *, wrap: bool) -> JSON:
    match type_.shape:
        case "scalar":
            return dict(_SCALARS[type_.name])
        case "object":
            name = _add_model(schemas, type_.name, group, prefix, wrap=wrap)
            return {"$ref": prefix + name}
        case "any":
            return (
                {"x-kubernetes-int-or-string": True} if type_.name == "object" else {}
            )
    element = type_.element
    assert element is not None  # noqa: S101 - lists and maps have one
    inner = _shape(schemas, element, group, prefix, wrap=wrap)
    if wrap and "$ref" in inner:
        inner = {"allOf": [inner], "default": {}}
    if type_.shape == "list":
        return {"type": "array", "items": inner}
    return {"type": "object", "additionalProperties": inner}


def _described(shape: JSON, field: Field, model: str, *, wrap: bool) -> JSON:
    if "$ref" in shape and wrap:
        shape = {"allOf": [shape], "default": {}}
    described = {"description": field.description, **shape}
    if field.type.shape == "list":
        parent = {"V1Container": "containers"}.get(model, "spec")
        key = merge_key(field.name, parent)
        if key or field.name in MERGED_PRIMITIVES:
            described["x-kubernetes-patch-strategy"] = "merge"
        if key:
            described["x-kubernetes-patch-merge-key"] = key
            described["x-kubernetes-list-type"] = "map"
            described["x-kubernetes-list-map-keys"] = [key]
    if field.name == "strategy":
        described["x-kubernetes-patch-strategy"] = "retainKeys"
    return described


def _paths(kinds: list[Kind], prefix: str, *, v3: bool) -> JSON:
    paths: JSON = {}
    for kind in kinds:
        if not kind.is_stored or not kind.model:
            continue
        root = f"/apis/{kind.group}" if kind.group else "/api"
        base = f"{root}/{kind.version}"
        if kind.namespaced:
            base += "/namespaces/{namespace}"
        collection = f"{base}/{kind.plural}"
        paths[collection] = {"post": _operation(kind, "post", prefix, v3=v3)}
        paths[f"{collection}/{{name}}"] = {
            "put": _operation(kind, "put", prefix, v3=v3),
            "patch": _operation(kind, "patch", prefix, v3=v3),
        }
    return paths


def _operation(kind: Kind, action: str, prefix: str, *, v3: bool) -> JSON:
    string: JSON = {"schema": {"type": "string"}} if v3 else {"type": "string"}
    parameters = [
        {"name": name, "in": "query", "description": text, **string}
        for name, text in _PARAMETERS
    ]
    name = _definition_name(kind.model, _home(kind.model, kind.group))
    schema = {"$ref": prefix + name}
    success = (
        {"description": "OK", "content": {"application/json": {"schema": schema}}}
        if v3
        else {"description": "OK", "schema": schema}
    )
    return {
        "operationId": f"{action}{kind.kind}",
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": {
            "group": kind.group,
            "kind": kind.kind,
            "version": kind.version,
        },
        "parameters": parameters,
        "responses": {"200": success},
    }
