"""The parameters of operations: those of a path, and those of a query.

Upstream: apiserver/pkg/endpoints/installer.go, which adds the options of meta/v1.
"""

from collections.abc import Mapping
from typing import Final

from controller_manager.api.json_objects import JSON

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


def query_parameters(action: str) -> list[JSON]:
    """Return the parameters of an action, as version 2 writes them."""
    return [_parameter(name, *_TEXTS[name]) for name in _QUERIES.get(action, ())]


def path_parameters(path: str, kind: str) -> list[JSON]:
    """Return the parameters that all operations of a path have."""
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
