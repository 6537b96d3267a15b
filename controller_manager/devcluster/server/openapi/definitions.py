"""The definitions of a document: one for each model that its kinds contain."""

from collections.abc import Iterable
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.server.apimachinery.strategic_merge import (
    MERGED_PRIMITIVES,
    merge_key,
)
from controller_manager.devcluster.server.openapi.custom_schemas import (
    custom_name,
    without_v3,
)
from controller_manager.devcluster.server.rest.kind import Kind
from controller_manager.devcluster.server.schema import (
    Field,
    Type,
    fields_of,
    go_type,
)

_SCALARS: Final = {
    "int": {"type": "integer", "format": "int32"},
    "bool": {"type": "boolean"},
    "str": {"type": "string"},
    "float": {"type": "number", "format": "double"},
    "datetime": {"type": "string", "format": "date-time"},
}
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


_API_VERSION: Final = (
    "APIVersion defines the versioned schema of this representation of an object."
)
_KIND: Final = (
    "Kind is a string value representing the REST resource this object represents."
)
_METADATA: Final = (
    "Standard object's metadata. More info: https://git.k8s.io/community/contributors/"
    "devel/sig-architecture/api-conventions.md#metadata"
)


class Schemas:
    """The definitions of one document, by name.

    References begin with `prefix`; `wrap` puts each reference into an ``allOf``, as
    documents of version 3 do.
    """

    def __init__(self, kinds: Iterable[Kind], prefix: str, *, wrap: bool) -> None:
        """Describe all `kinds`, and all models that they refer to."""
        self.definitions: JSON = {}
        self._prefix = prefix
        self._wrap = wrap
        self._own: dict[str, tuple[str, ...]] = {}
        kinds = list(kinds)
        described = [kind for kind in kinds if kind.model and fields_of(kind.model)]
        custom = [each for each in kinds if each.strategy.openapi_schema() is not None]
        for kind in described:
            own = self._own.get(kind.group, ())
            self._own[kind.group] = (*own, kind.model, *kind.strategy.models)
        for kind in described:
            self._add_kind(kind)
        for kind in custom:
            self._add_custom(kind)

    def describes(self, kind: Kind) -> bool:
        """Tell whether there is a definition of a kind."""
        return bool(kind.model) or custom_name(kind) in self.definitions

    def reference(self, kind: Kind) -> JSON:
        """Return the reference to a kind's definition."""
        name = self._name(kind.model, kind.group) if kind.model else custom_name(kind)
        return {"$ref": self._prefix + name}

    def _add_custom(self, kind: Kind) -> None:
        """Describe a kind by a schema of its own."""
        name, schema = custom_name(kind), kind.strategy.openapi_schema() or {}
        meta = {"$ref": self._prefix + self._add_model("V1ObjectMeta", "")}
        published = schema if self._wrap else without_v3(schema)
        self.definitions[name] = {
            **published,
            "properties": {
                **published.get("properties", {}),
                "apiVersion": {"type": "string", "description": _API_VERSION},
                "kind": {"type": "string", "description": _KIND},
                "metadata": {
                    "description": _METADATA,
                    **({"allOf": [meta]} if self._wrap else meta),
                },
            },
            "x-kubernetes-group-version-kind": [_gvk(kind, kind.kind)],
        }
        self._add_list(kind, name)

    def _name(self, model: str, group: str) -> str:
        if model in _META:
            return f"io.k8s.apimachinery.pkg.apis.meta.v1.{go_type(model)}"
        package = self._home(model, group).partition(".")[0] or "core"
        version = "v2" if model.startswith("V2") else "v1"
        return f"io.k8s.api.{package}.{version}.{go_type(model)}"

    def _home(self, model: str, group: str) -> str:
        """Return the group of a model's package; for most models, it is the core group.

        The names of models that are part of one kind begin with the kind's model.
        """
        return group if model.startswith(self._own.get(group, ("-",))) else ""

    def _add_kind(self, kind: Kind) -> None:
        name = self._add_model(kind.model, kind.group)
        gvk = _gvk(kind, kind.kind)
        self.definitions[name]["x-kubernetes-group-version-kind"] = [gvk]
        if kind.is_stored:
            self._add_list(kind, name)

    def _add_list(self, kind: Kind, item: str) -> None:
        meta = self._add_model("V1ListMeta", "")
        list_kind = kind.list_kind
        gvk = _gvk(kind, list_kind)
        self.definitions[f"{item}List"] = {
            "description": f"{list_kind} is a list of {kind.kind}.",
            "type": "object",
            "required": ["items"],
            "properties": {
                "apiVersion": {"type": "string"},
                "kind": {"type": "string"},
                "items": {"type": "array", "items": {"$ref": self._prefix + item}},
                "metadata": {"$ref": self._prefix + meta},
            },
            "x-kubernetes-group-version-kind": [gvk],
        }

    def _add_model(self, model: str, group: str) -> str:
        """Describe a model and those it refers to; return its definition's name."""
        home = self._home(model, group)
        name = self._name(model, home)
        if name in self.definitions:
            return name
        properties: JSON = {}
        self.definitions[name] = {
            "description": f"{go_type(model)} of the Kubernetes API.",
            "type": "object",
            "properties": properties,
        }
        for field in (fields_of(model) or {}).values():
            shape = self._shape(field.type, home)
            properties[field.name] = self._described(shape, field, model)
        return name

    def _shape(self, type_: Type, group: str) -> JSON:
        match type_.shape:
            case "scalar":
                return dict(_SCALARS[type_.name])
            case "object":
                return {"$ref": self._prefix + self._add_model(type_.name, group)}
            case "any" if type_.name == "object":
                return {"x-kubernetes-int-or-string": True}
            case "any":
                return {}
        element = type_.element
        assert element is not None  # noqa: S101 - lists and maps have one
        inner = self._wrapped(self._shape(element, group))
        if type_.shape == "list":
            return {"type": "array", "items": inner}
        return {"type": "object", "additionalProperties": inner}

    def _wrapped(self, shape: JSON) -> JSON:
        if self._wrap and "$ref" in shape:
            return {"allOf": [shape], "default": {}}
        return shape

    def _described(self, shape: JSON, field: Field, model: str) -> JSON:
        described = {"description": field.description, **self._wrapped(shape)}
        if field.type.shape == "list":
            described |= _list_extensions(field, model)
        if field.name == "strategy":
            described["x-kubernetes-patch-strategy"] = "retainKeys"
        return described


def _list_extensions(field: Field, model: str) -> JSON:
    """Return the extensions that say how a list is merged."""
    extensions: JSON = {}
    parent = {"V1Container": "containers"}.get(model, "spec")
    key = merge_key(field.name, parent)
    if key or field.name in MERGED_PRIMITIVES:
        extensions["x-kubernetes-patch-strategy"] = "merge"
    if key:
        extensions["x-kubernetes-patch-merge-key"] = key
        extensions["x-kubernetes-list-type"] = "map"
        extensions["x-kubernetes-list-map-keys"] = [key]
    return extensions


def _gvk(kind: Kind, name: str) -> JSON:
    return {"group": kind.group, "kind": name, "version": kind.version}
