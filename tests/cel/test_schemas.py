"""Types are made from OpenAPI schemas; where these say too little, nothing is known."""

import json

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.cel.checker import check
from controller_manager.cel.parser import parse
from controller_manager.cel.schemas import Schemas
from controller_manager.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    ListOf,
    MapOf,
    Object,
    Type,
)

KIND = {"group": "example.com", "version": "v1", "kind": "Widget"}
STRING_SCHEMA = {"type": "string"}


def schemas(root: JSON, **definitions: JSON) -> Schemas:
    """Return the schemas of a document with one kind, and more definitions."""
    named = {"x-kubernetes-group-version-kind": [KIND], **root}
    document = {"components": {"schemas": {"widget": named, **definitions}}}
    return Schemas(json.dumps(document).encode())


def widget(root: JSON, **definitions: JSON) -> Type | None:
    return schemas(root, **definitions).type_of("example.com", "v1", "Widget")


def field(schema: JSON, **definitions: JSON) -> Type | None:
    root = {"type": "object", "properties": {"f": schema}}
    found = widget(root, **definitions)
    assert isinstance(found, Object)
    return found.field("f")


FIELDS: list[tuple[JSON, Type]] = [
    ({"type": "string"}, STRING),
    ({"type": "string", "format": "date-time"}, TIMESTAMP),
    ({"type": "string", "format": "date"}, TIMESTAMP),
    ({"type": "string", "format": "byte"}, BYTES),
    ({"type": "string", "format": "duration"}, DURATION),
    ({"type": "string", "format": "int-or-string"}, DYN),
    ({"type": "string", "format": "anything"}, STRING),
    ({"type": "boolean"}, BOOL),
    ({"type": "integer", "format": "int64"}, INT),
    ({"type": "number", "format": "double"}, DOUBLE),
    ({"x-kubernetes-int-or-string": True}, DYN),
    ({"oneOf": [{"type": "string"}, {"type": "number"}]}, DYN),
    ({}, DYN),
    ({"type": "array", "items": STRING_SCHEMA}, ListOf(STRING)),
    ({"type": "array"}, DYN),
    ({"type": "object", "additionalProperties": STRING_SCHEMA}, MapOf(STRING)),
    ({"type": "object", "additionalProperties": True}, DYN),
    ({"type": "object", "additionalProperties": {}}, MapOf(DYN)),
    ({"type": "object"}, DYN),
    ({"type": "object", "x-kubernetes-preserve-unknown-fields": True}, DYN),
    (
        {
            "type": "object",
            "properties": {"a": STRING_SCHEMA},
            "x-kubernetes-embedded-resource": True,
        },
        DYN,
    ),
    ({"$ref": "#/components/schemas/text"}, STRING),
    ({"allOf": [{"$ref": "#/components/schemas/text"}], "default": {}}, STRING),
    ({"$ref": "#/components/schemas/absent"}, DYN),
]


@pytest.mark.parametrize(("schema", "expected"), FIELDS)
def test_a_schema_has_a_type(schema: JSON, expected: Type) -> None:
    assert field(schema, text=STRING_SCHEMA) == expected


def test_a_resource_has_a_kind_and_metadata() -> None:
    """Also if its schema does not say so."""
    found = widget({"type": "object", "properties": {"spec": STRING_SCHEMA}})
    assert isinstance(found, Object)
    assert [found.field(each) for each in ("kind", "apiVersion")] == [STRING, STRING]
    assert found.field("status") is None
    metadata = found.field("metadata")
    assert isinstance(metadata, Object)
    assert metadata.field("name") == STRING
    assert metadata.field("label") is None


def test_a_kind_without_fields_may_have_any() -> None:
    """As a custom resource that keeps unknown fields; an unknown kind has no type."""
    keeps = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    assert widget(keeps) == DYN
    some = {**keeps, "properties": {"a": STRING_SCHEMA}}
    found = widget(some)
    assert isinstance(found, Object)
    assert (found.field("a"), found.field("b")) == (STRING, DYN)
    assert schemas(keeps).type_of("example.com", "v2", "Widget") is None


def test_a_schema_may_contain_itself() -> None:
    """The inner one may be anything."""
    node = {
        "type": "object",
        "properties": {
            "name": STRING_SCHEMA,
            "next": {"$ref": "#/components/schemas/node"},
        },
    }
    found = field({"$ref": "#/components/schemas/node"}, node=node)
    assert isinstance(found, Object)
    assert (found.field("name"), found.field("next")) == (STRING, DYN)


def test_properties_have_escaped_names_and_their_own() -> None:
    """A keyword is right after a dot when a policy is evaluated."""
    names = ("namespace", "foo-bar", "a__b")
    root = {"type": "object", "properties": dict.fromkeys(names, STRING_SCHEMA)}
    found = widget(root)
    assert found is not None
    right = (
        "object.namespace == object.__namespace__ && object.foo__dash__bar == 'a' "
        "&& object.a__b == object.a__underscores__b"
    )
    assert check(parse(right), {"object": found}).problems == ()


def test_a_document_of_an_unknown_form_says_nothing() -> None:
    """A definition that cannot be read is as good as none."""
    strange = {"type": ["string", "null"]}
    assert field({"$ref": "#/components/schemas/strange"}, strange=strange) == DYN
