"""The definitions of OpenAPI documents: models, and schemas of custom resources.

Upstream: pkg/controller/openapi of apiextensions-apiserver.
"""

from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any, Final, Literal

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme import models

from .kind import Kind

# Schemas of custom resources, in the forms of the OpenAPI documents.

_JUNCTORS: Final = ("allOf", "anyOf", "not", "oneOf")
_NOT_IN_V2: Final = (*_JUNCTORS, "default", "nullable")
_PRESERVES: Final = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED: Final = "x-kubernetes-embedded-resource"
_INT_OR_STRING: Final = "x-kubernetes-int-or-string"
_SELECTABLE: Final = "x-kubernetes-selectable-fields"
_NUMBER_OR_TEXT: Final = ({"type": "integer"}, {"type": "string"})
_CONVENTIONS: Final = (
    "https://git.k8s.io/community/contributors/devel/sig-architecture/"
    "api-conventions.md"
)

API_VERSION: Final[Mapping[str, str]] = {
    "type": "string",
    "description": "APIVersion defines the versioned schema of this representation of "
    "an object. Servers should convert recognized schemas to the latest internal "
    "value, and may reject unrecognized values. More info: "
    f"{_CONVENTIONS}#resources",
}
KIND: Final[Mapping[str, str]] = {
    "type": "string",
    "description": "Kind is a string value representing the REST resource this object "
    "represents. Servers may infer this from the endpoint the client submits requests "
    f"to. Cannot be updated. In CamelCase. More info: {_CONVENTIONS}#types-kinds",
}
METADATA: Final = f"Standard object's metadata. More info: {_CONVENTIONS}#metadata"
LIST_METADATA: Final = f"Standard list metadata. More info: {_CONVENTIONS}#types-kinds"
_OF_EMBEDDED: Final[JSON] = {
    "apiVersion": {
        "type": "string",
        "description": "apiVersion defines the versioned schema of this representation "
        f"of an object. More info: {_CONVENTIONS}#resources",
    },
    "kind": {
        "type": "string",
        "description": "kind is a string value representing the type of this object. "
        f"In CamelCase. More info: {_CONVENTIONS}#types-kinds",
    },
}
"""The type of an object inside of another one."""


def _custom_name(kind: Kind) -> str:
    """Return the name of a kind's definition: reversed group, version, kind."""
    group = ".".join(reversed(kind.group.split(".")))
    return f"{group}.{kind.version}.{kind.kind}"


def _items_text(kind: Kind) -> str:
    return f"List of {kind.plural}. More info: {_CONVENTIONS}"


def _selectable_fields(kind: Kind) -> JSON:
    """Return the extension that lists the fields of a kind that selectors may have."""
    fields = [{"fieldPath": each} for each in kind.strategy.fields_to_select()]
    return {_SELECTABLE: fields} if fields else {}


def _has_fields(schema: JSON, *, for_v2: bool) -> bool:
    """Tell whether a document has the fields of a resource.

    Clients that validate by a document of version 2 must not refuse the objects of a
    kind without a schema, or with unknown fields.
    """
    return bool(schema) and not (for_v2 and schema.get(_PRESERVES))


def _published(schema: JSON, metadata: JSON, *, for_v2: bool) -> JSON:
    """Return the schema of a resource as a document has it; `metadata` is its field."""
    shown = _without_v3(schema) if for_v2 else _with_choices(schema)
    shown["properties"] = {
        **shown.get("properties", {}),
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": metadata,
    }
    return _with_embedded(shown, metadata, for_v2=for_v2)


def _without_v3(schema: JSON) -> JSON:
    """Return the parts of a schema that a document of version 2 can express.

    kubectl takes a field without a type for anything. It cannot read fields of an
    object that may be null or has unknown parts.
    """
    known = {name: each for name, each in schema.items() if name not in _NOT_IN_V2}
    known = _converted(known, _without_v3)
    if schema.get("nullable"):
        known.pop("type", None)
    if schema.get("nullable") or schema.get(_PRESERVES):
        known.pop("items", None)
        known.pop("properties", None)
    is_open = (
        "items" not in known if schema.get("type") == "array" else _PRESERVES in schema
    )
    if is_open:
        known.pop("type", None)
    return _with_required(known, schema)


def _with_required(known: JSON, schema: JSON) -> JSON:
    """Return a schema that does not require the fields that may be null."""
    optional = {
        name
        for name in known.get("properties", ())
        if schema["properties"][name].get("nullable")
    }
    others = schema.get("additionalProperties")
    needed = [each for each in known.pop("required", ()) if each not in optional]
    if needed and not (isinstance(others, dict) and others.get("nullable")):
        known["required"] = needed
    return known


def _with_choices(schema: JSON) -> JSON:
    """Return a schema in which a number or text says so, as structural schemas do."""
    found = _converted(schema, _with_choices)
    if not schema.get(_INT_OR_STRING):
        return found
    choice = list(_NUMBER_OR_TEXT)
    all_of = schema.get("allOf") or []
    if schema.get("anyOf") == choice or (all_of and all_of[0].get("anyOf") == choice):
        return found
    if "anyOf" in schema:
        return {**found, "allOf": [{"anyOf": choice}, *all_of]}
    return {**found, "anyOf": choice}


def _with_embedded(schema: JSON, metadata: JSON, *, for_v2: bool) -> JSON:

    def inner(part: JSON) -> JSON:
        return _with_embedded(part, metadata, for_v2=for_v2)

    found = _converted(schema, inner)
    if not schema.get(_EMBEDDED) or (for_v2 and schema.get(_PRESERVES)):
        return found
    required = list(schema.get("required") or ())
    required += [each for each in ("kind", "apiVersion") if each not in required]
    more = {**_OF_EMBEDDED, "metadata": metadata}
    properties = {**found.get("properties", {}), **more}
    return {**found, "properties": properties, "required": required}


def _converted(schema: JSON, convert: Callable[[JSON], JSON]) -> JSON:
    found = dict(schema)
    for name in ("items", "additionalProperties"):
        if isinstance(inner := found.get(name), dict):
            found[name] = convert(inner)
    properties: Any = found.get("properties")
    if properties is not None:
        found["properties"] = {name: convert(each) for name, each in properties.items()}
    return found


# The definitions of a document: one for each model that it refers to.

Version = Literal[2, 3]

_PREFIXES: Final[Mapping[Version, str]] = {
    2: "#/definitions/",
    3: "#/components/schemas/",
}
_GROUP_VERSION_KIND: Final = "x-kubernetes-group-version-kind"
_ZEROS: Final = {"boolean": False, "integer": 0, "number": 0, "string": ""}
_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1"
_LIST_META: Final = f"{_META}.ListMeta"
_OF_ALL_GROUPS: Final = (models.DELETE_OPTIONS, f"{_META}.WatchEvent")
"""Models that each group version has."""


class Schemas:
    """The definitions of one document, by name."""

    def __init__(
        self,
        version: Version,
        group_versions: Iterable[tuple[str, str]],
        known: Container[str] = (),
    ) -> None:
        """Start without definitions.

        `group_versions` are those of the server itself. Another part of the document
        has the definitions `known`.
        """
        self.definitions: JSON = {}
        self._known = known
        self.version = version
        self._prefix = _PREFIXES[version]
        self._group_versions = tuple(group_versions)

    def of_kind(self, kind: Kind) -> JSON:
        """Return the reference to a kind's definition."""
        if name := kind.type_name:
            return self.of_model(name)
        if (name := _custom_name(kind)) not in self.definitions:
            self._add_custom(kind, name)
        return self._reference(name)

    def of_list(self, kind: Kind) -> JSON:
        """Return the reference to the definition of a kind's lists."""
        if not kind.is_custom and (
            name := models.built_in().find(kind.api_version, kind.list_kind)
        ):
            return self.of_model(name)
        item = self.of_kind(kind)
        if (name := f"{_custom_name(kind)}List") not in self.definitions:
            self._add_list(kind, name, item)
        return self._reference(name)

    def of_model(self, name: str) -> JSON:
        """Return the reference to a model's definition."""
        if name not in self.definitions and name not in self._known:
            self.definitions[name] = {}  # a model may refer to itself
            self.definitions[name] = self._definition(
                name, models.built_in().model(name)
            )
        return self._reference(name)

    def _reference(self, name: str) -> JSON:
        return {"$ref": self._prefix + name}

    def _definition(self, name: str, model: models.Model) -> JSON:
        found: JSON = {"type": model.type} if model.type else {}
        if model.fields:
            found["description"] = f"{name.rpartition('.')[2]} of the Kubernetes API."
        if model.format:
            found["format"] = model.format
        if model.one_of:
            found |= (
                {"oneOf": model.one_of} if self.version == 3 else {"type": "string"}
            )
        if model.fields:
            texts = models.field_descriptions(name)
            found["properties"] = {
                each: self._property(field, texts.get(each, ""))
                for each, field in model.fields.items()
            }
        if model.required:
            found["required"] = model.required
        if kinds := self._kinds_of(name, model):
            found[_GROUP_VERSION_KIND] = kinds
        if model.map_type:
            found["x-kubernetes-map-type"] = model.map_type
        if model.unions:
            found["x-kubernetes-unions"] = model.unions
        return found

    def _kinds_of(self, name: str, model: models.Model) -> list[JSON]:
        """Return the kinds of a model, in all group versions if they have it."""
        if name not in _OF_ALL_GROUPS:
            return list(model.group_version_kind)
        kind = name.rpartition(".")[2]
        return [
            {"group": group, "kind": kind, "version": version}
            for group, version in sorted(self._group_versions)
        ]

    def _property(self, field: models.Field, description: str) -> JSON:
        found: JSON = {"description": description} if description else {}
        if self.version == 3 and field.default is not None:
            found["default"] = field.default
        found |= _merging(field)
        return found | self._shape(field, has_siblings=bool(found))

    def _shape(self, of: models.Type, *, has_siblings: bool) -> JSON:
        """Return a type; a reference with siblings needs ``allOf`` in version 3."""
        if of.ref:
            if (items := models.built_in().model(of.ref).items) is not None:
                # Documents state the list itself; its name is for protobuf.
                return self._shape(models.Type(items=items), has_siblings=has_siblings)
            reference = self.of_model(of.ref)
            if self.version == 3 and has_siblings:
                return {"allOf": [reference]}
            return reference
        if of.items is not None:
            return {"type": "array", "items": self._element(of.items)}
        if of.values is not None:
            values = self._element(of.values)
            return {"type": "object", "additionalProperties": values}
        found: JSON = {"type": of.type}
        if of.format:
            found["format"] = of.format
        return found

    def _element(self, of: models.Type) -> JSON:
        default = _zero(of) if self.version == 3 else None
        shape = self._shape(of, has_siblings=default is not None)
        return shape if default is None else {**shape, "default": default}

    # Custom resources

    def _add_custom(self, kind: Kind, name: str) -> None:
        schema, shown = kind.strategy.openapi_schema() or {}, {"type": "object"}
        if _has_fields(schema, for_v2=self.version == 2):
            metadata = self._described(models.OBJECT_META, METADATA)
            shown = _published(schema, metadata, for_v2=self.version == 2)
        self.definitions[name] = {
            **shown,
            _GROUP_VERSION_KIND: [_gvk(kind, kind.kind)],
            **_selectable_fields(kind),
        }

    def _described(self, model: str, text: str) -> JSON:
        return {
            "description": text,
            **self._shape(models.Type(ref=model), has_siblings=True),
        }

    def _add_list(self, kind: Kind, name: str, item: JSON) -> None:
        self.definitions[name] = {
            "description": f"{kind.list_kind} is a list of {kind.kind}",
            "type": "object",
            "required": ["items"],
            "properties": {
                "apiVersion": API_VERSION,
                "kind": KIND,
                "items": {
                    "type": "array",
                    "description": _items_text(kind),
                    "items": item,
                },
                "metadata": self._described(_LIST_META, LIST_METADATA),
            },
            _GROUP_VERSION_KIND: [_gvk(kind, kind.list_kind)],
            **_selectable_fields(kind),
        }


def _merging(field: models.Field) -> JSON:
    extensions = {
        "list-map-keys": field.list_map_keys,
        "list-type": field.list_type,
        "map-type": field.map_type,
        "patch-merge-key": field.patch_merge_key,
        "patch-strategy": field.patch_strategy,
    }
    return {f"x-kubernetes-{name}": each for name, each in extensions.items() if each}


def _zero(of: models.Type) -> object:
    """Return the default of an element: its zero in Go, `None` if it has no default."""
    if of.ref:
        return {} if models.built_in().model(of.ref).fields else None
    return None if of.format == "byte" else _ZEROS.get(of.type)


def _gvk(kind: Kind, name: str) -> JSON:
    return {"group": kind.group, "kind": name, "version": kind.version}
