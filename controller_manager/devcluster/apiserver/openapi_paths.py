"""The paths of a document and the operations on them, in both versions of OpenAPI."""

import hashlib
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.models import DELETE_OPTIONS, built_in

from .kind import Kind, Subresource
from .openapi_definitions import Schemas

# The parameters of operations: those of a path, and those of a query.

_TEXTS: Final[Mapping[str, tuple[str, str]]] = {
    "allowWatchBookmarks": ("boolean", "Send events of type BOOKMARK in a watch."),
    "continue": ("string", "The token of the next page, from the page before it."),
    "dryRun": (
        "string",
        "When present, the server checks the request and stores nothing: All.",
    ),
    "fieldManager": ("string", "The name of the actor that makes the change."),
    "fieldSelector": ("string", "Restrict the objects by their fields."),
    "fieldValidation": (
        "string",
        "The treatment of unknown and duplicate fields: Ignore, Warn or Strict.",
    ),
    "force": ("boolean", "Take over the fields of other managers. For apply only."),
    "gracePeriodSeconds": (
        "integer",
        "The seconds before the object is deleted. Zero deletes it immediately.",
    ),
    "labelSelector": ("string", "Restrict the objects by their labels."),
    "limit": ("integer", "The most objects in one page of a list."),
    "orphanDependents": (
        "boolean",
        "Deprecated: use propagationPolicy. Keep the dependents of the object.",
    ),
    "propagationPolicy": (
        "string",
        "The treatment of dependents: Orphan, Background or Foreground.",
    ),
    "resourceVersion": ("string", "The resource version that the answer may have."),
    "resourceVersionMatch": (
        "string",
        "The meaning of resourceVersion in a list: Exact or NotOlderThan.",
    ),
    "sendInitialEvents": (
        "boolean",
        "Begin a watch with the objects that exist, and a bookmark after them.",
    ),
    "timeoutSeconds": ("integer", "The most seconds that a list or watch takes."),
    "watch": ("boolean", "Send the changes of the objects instead of a list."),
}
_LIST: Final = (
    *("allowWatchBookmarks", "continue", "fieldSelector", "labelSelector", "limit"),
    *("resourceVersion", "resourceVersionMatch", "sendInitialEvents"),
    *("timeoutSeconds", "watch"),
)
_WRITE: Final = ("dryRun", "fieldManager", "fieldValidation")
_DELETE: Final = (
    *("dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy"),
)
_QUERIES: Final[Mapping[str, tuple[str, ...]]] = {
    "list": _LIST,
    "post": _WRITE,
    "put": _WRITE,
    "patch": (*_WRITE, "force"),
    "delete": _DELETE,
    "deletecollection": tuple(
        sorted({*_LIST, *_DELETE} - {"allowWatchBookmarks", "watch"})
    ),
}
_NAMESPACE: Final = "object name and auth scope, such as for teams and projects"


def _query_parameters(action: str) -> list[JSON]:
    """Return the parameters of an action, as version 2 writes them."""
    return [_parameter(name, *_TEXTS[name]) for name in _QUERIES.get(action, ())]


def _path_parameters(path: str, kind: str) -> list[JSON]:
    found = []
    if "/{name}" in path:
        found.append(_in_path("name", f"name of the {kind}"))
    if "/{namespace}" in path:
        found.append(_in_path("namespace", _NAMESPACE))
    pretty = "If 'true', then the output is pretty printed."
    return [*found, _parameter("pretty", "string", pretty)]


def in_version_3(parameter: JSON) -> JSON:
    """Return a parameter with its type in a schema, as version 3 writes it."""
    schema = {name: parameter[name] for name in ("type", "uniqueItems")}
    rest = {name: each for name, each in parameter.items() if name not in schema}
    return {**rest, "schema": schema}


def _parameter(name: str, type_: str, description: str) -> JSON:
    return {
        "description": description,
        "in": "query",
        "name": name,
        "type": type_,
        "uniqueItems": True,
    }


def _in_path(name: str, description: str) -> JSON:
    parameter = _parameter(name, "string", description)
    return {**parameter, "in": "path", "required": True}


# The paths of a kind, and the operations on them: verb, kind and name.

_METHODS: Final = {
    "create": "post",
    "delete": "delete",
    "deletecollection": "delete",
    "get": "get",
    "list": "get",
    "patch": "patch",
    "update": "put",
}
_ACTIONS: Final = {"create": "post", "update": "put"}
"""The actions of verbs that have another name in the documents."""

_NAMES: Final = {
    "deletecollection": "delete",
    "get": "read",
    "update": "replace",
    "watchlist": "watch",
}
"""The beginning of the names of operations, if it is not the verb."""

_DESCRIPTIONS: Final = {
    "create": "create {article} {kind}",
    "delete": "delete {article} {kind}",
    "deletecollection": "delete collection of {kind}",
    "get": "read {part}the specified {kind}",
    "list": "list or watch objects of kind {kind}",
    "patch": "partially update {part}the specified {kind}",
    "update": "replace {part}the specified {kind}",
    "watch": "watch changes to an object of kind {kind}. deprecated: use the 'watch' "
    "parameter with a list operation instead.",
    "watchlist": "watch individual changes to a list of {kind}. deprecated: use the "
    "'watch' parameter with a list operation instead.",
}

WATCH_EVENT: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent"


class _Operation(NamedTuple):
    """One operation: its verb, the kind of its path, and its subresource."""

    verb: str
    kind: Kind
    subresource: Subresource | None = None
    suffix: str = ""
    """The end of the name, such as ``ForAllNamespaces``."""

    @property
    def method(self) -> str:
        return _METHODS.get(self.verb, "get")

    @property
    def action(self) -> str:
        """The value of ``x-kubernetes-action``."""
        if self.connects:
            return "connect"
        return _ACTIONS.get(self.verb, self.verb)

    @property
    def connects(self) -> bool:
        """True if the operation opens a stream or proxies a request."""
        sub = self.subresource
        return sub is not None and not self.kind.is_custom and not self.model

    @property
    def group_version_kind(self) -> dict[str, str]:
        kind, sub = self.kind, self.subresource
        if sub is None:
            return {"group": kind.group, "kind": kind.kind, "version": kind.version}
        group = sub.group or kind.group
        return {
            "group": group,
            "kind": sub.kind,
            "version": sub.version or kind.version,
        }

    @property
    def model(self) -> str | None:
        """The model of a subresource, `None` for the object and for a stream."""
        sub, kind = self.subresource, self.kind
        if sub is None or (kind.is_custom and not sub.group):
            return None
        gvk = self.group_version_kind
        group = f"{gvk['group']}/" if gvk["group"] else ""
        return built_in().find(f"{group}{gvk['version']}", gvk["kind"])

    @property
    def is_text(self) -> bool:
        """True if the answer is a text: a part of an object that is only read."""
        return self.subresource is not None and self.subresource.verbs == ("get",)

    @property
    def operation_id(self) -> str:
        """The name of the operation, such as ``listAppsV1NamespacedDeployment``."""
        kind, verb = self.kind, self.verb
        version = _group_name(kind.group) + kind.version.capitalize()
        version = version[0].upper() + version[1:]
        parts = [_NAMES.get(verb, verb), version]
        if self.connects:
            parts = ["connect", version, self.method.capitalize()]
        if verb == "deletecollection":
            parts.append("Collection")
        if kind.namespaced and self.suffix[-10:] != "Namespaces":
            parts.append("Namespaced")
        sub = self.subresource.name.capitalize() if self.subresource else ""
        return "".join((*parts, kind.kind, sub, self.suffix))

    @property
    def description(self) -> str:
        sub = self.subresource.name if self.subresource else ""
        kind = self.group_version_kind["kind"]
        if self.connects:
            return (
                f"connect {self.method.upper()} requests to {sub} of {self.kind.kind}"
            )
        if self.kind.is_custom and self.verb == "list":
            return f"list objects of kind {kind}"
        return _DESCRIPTIONS[self.verb].format(
            kind=self.kind.kind if sub else kind,
            part=f"{sub} of " if sub else "",
            article="an" if kind[0] in "AEIOU" else "a",
        )


def _group_name(group: str) -> str:
    """Return the name of a group in names: ``rbacAuthorization``, ``core``."""
    first, *rest = (group or "core").removesuffix(".k8s.io").split(".")
    return first + "".join(each.capitalize() for each in rest)


def _base_path(group: str, version: str) -> str:
    return f"/apis/{group}/{version}" if group else f"/api/{version}"


def _operations_by_path(kind: Kind) -> Iterator[tuple[str, list[_Operation]]]:
    base, plural = _base_path(kind.group, kind.version), kind.plural
    everywhere = "ForAllNamespaces"
    home = f"{base}/namespaces/{{namespace}}" if kind.namespaced else base
    if kind.namespaced and "list" in kind.verbs:
        yield f"{base}/{plural}", [_Operation("list", kind, suffix=everywhere)]
    on_all = ("deletecollection", "list", "create")
    found = [_Operation(each, kind) for each in on_all if each in kind.verbs]
    yield f"{home}/{plural}", found
    path = f"{home}/{plural}/{{name}}"
    on_one = ("delete", "get", "patch", "update")
    if found := [_Operation(each, kind) for each in on_one if each in kind.verbs]:
        yield path, found
    for sub in kind.subresources:
        yield f"{path}/{sub.name}", [_Operation(each, kind, sub) for each in sub.verbs]
    if "watch" in kind.verbs and not kind.is_custom:
        yield from _watches(kind, home.replace(base, f"{base}/watch", 1))


def _watches(kind: Kind, home: str) -> Iterator[tuple[str, list[_Operation]]]:
    """Yield the paths of a kind that clients watched before lists could be watched."""
    if kind.namespaced:
        path = f"{_base_path(kind.group, kind.version)}/watch/{kind.plural}"
        suffix = "ListForAllNamespaces"
        yield path, [_Operation("watchlist", kind, suffix=suffix)]
    path = f"{home}/{kind.plural}"
    yield path, [_Operation("watchlist", kind, suffix="List")]
    yield f"{path}/{{name}}", [_Operation("watch", kind)]


# The paths of a document, in the forms of both versions of OpenAPI.

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
_QUERIES_LIKE: Final = {"watch": "list", "watchlist": "list"}
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
            for path, operations in _operations_by_path(kind):
                self._add(path, kind, operations)

    def _add_resources(self, group: str, version: str) -> None:
        schema = self._schemas.of_model(f"{_META}.APIResourceList")
        name = _group_name(group)
        operation_id = f"get{name[0].upper()}{name[1:]}{version.capitalize()}"
        exchange = _Exchange(None, (_ANY,), _READ, schema, _FORMS)
        operation = {
            "description": "get available resources",
            "operationId": f"{operation_id}APIResources",
            "tags": [f"{name}_{version}"],
            **self._exchanged(exchange),
        }
        self.items[f"{_base_path(group, version)}/"] = {"get": operation}

    def _add(self, path: str, kind: Kind, operations: list[_Operation]) -> None:
        """Describe a path; parameters of its only operation are those of the path."""
        common = _path_parameters(path, kind.kind)
        item: JSON = {}
        for each in operations:
            action = each.action
            query = _query_parameters(_QUERIES_LIKE.get(action, action))
            if len(operations) == 1:
                common, query = [*common, *query], []
            item[each.method] = self._operation(each, query)
        common.sort(key=lambda each: (each["name"], each["in"]))
        item["parameters"] = self._shown(common)
        self.items[path] = item

    def _operation(self, operation: _Operation, query: list[JSON]) -> JSON:
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
            "tags": [f"{_group_name(kind.group)}_{kind.version}"],
            "x-kubernetes-action": operation.action,
            "x-kubernetes-group-version-kind": operation.group_version_kind,
        }
        if query:
            body = found.get("parameters", ())
            found["parameters"] = [*self._shown(query), *body]
        return found

    def _object(self, operation: _Operation) -> JSON:
        if model := operation.model:
            return self._schemas.of_model(model)
        return self._schemas.of_kind(operation.kind)

    def _body(self, operation: _Operation) -> JSON | None:
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

    def _answer(self, operation: _Operation) -> JSON:
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
        }
    }
    if exchange.body is not None:
        sendable = {each: {"schema": exchange.body} for each in exchange.accepted}
        found["requestBody"] = {"content": sendable, **_required(exchange.body)}
    return found


def _required(body: JSON) -> JSON:
    return {} if body["$ref"].endswith(f"/{DELETE_OPTIONS}") else {"required": True}


def _accepted(operation: _Operation) -> tuple[str, ...]:
    if operation.verb != "patch" or operation.connects:
        return (_JSON, _YAML) if operation.kind.is_custom else (_ANY,)
    if operation.kind.strategy.merges_strategically:
        return (*_PATCHES, _STRATEGIC)
    return _PATCHES


def _sent(operation: _Operation) -> tuple[str, ...]:
    if operation.connects:
        return (_ANY,)
    if operation.is_text:
        return ("text/plain", *_FORMS)
    if operation.kind.is_custom:
        return (_JSON, _YAML)
    if operation.verb in ("list", "watch", "watchlist"):
        return (*_FORMS, *(f"{each};stream=watch" for each in (_JSON, _PROTOBUF)))
    return _FORMS
