"""Schemas of custom resources, in the forms of the OpenAPI documents.

Upstream: pkg/controller/openapi of apiextensions-apiserver.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.server.rest.kind import Kind

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


def custom_name(kind: Kind) -> str:
    """Return the name of a kind's definition: reversed group, version, kind."""
    group = ".".join(reversed(kind.group.split(".")))
    return f"{group}.{kind.version}.{kind.kind}"


def items_text(kind: Kind) -> str:
    """Return the description of the items in a kind's lists."""
    return f"List of {kind.plural}. More info: {_CONVENTIONS}"


def selectable_fields(kind: Kind) -> JSON:
    """Return the extension that lists the fields of a kind that selectors may have."""
    fields = [{"fieldPath": each} for each in kind.strategy.fields_to_select()]
    return {_SELECTABLE: fields} if fields else {}


def has_fields(schema: JSON, *, for_v2: bool) -> bool:
    """Tell whether a document has the fields of a resource.

    Clients that validate by a document of version 2 must not refuse the objects of a
    kind without a schema, or with unknown fields.
    """
    return bool(schema) and not (for_v2 and schema.get(_PRESERVES))


def published(schema: JSON, metadata: JSON, *, for_v2: bool) -> JSON:
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
    """Return a schema in which objects inside of others have their own fields."""

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
    """Return a schema whose inner schemas are converted."""
    found = dict(schema)
    for name in ("items", "additionalProperties"):
        if isinstance(inner := found.get(name), dict):
            found[name] = convert(inner)
    properties: Any = found.get("properties")
    if properties is not None:
        found["properties"] = {name: convert(each) for name, each in properties.items()}
    return found
