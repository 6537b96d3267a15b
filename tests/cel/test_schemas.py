"""Types are made from OpenAPI schemas; where these say too little, nothing is known."""

import json

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.cel import types
from controller_manager.cel.checker import check
from controller_manager.cel.parser import parse
from controller_manager.cel.schemas import Schemas

KIND = {"group": "example.com", "version": "v1", "kind": "Widget"}
STRING_SCHEMA = {"type": "string"}


def schemas(root: JSON, **definitions: JSON) -> Schemas:
    named = {"x-kubernetes-group-version-kind": [KIND], **root}
    document = {"components": {"schemas": {"widget": named, **definitions}}}
    return Schemas(json.dumps(document).encode())


def widget(root: JSON, **definitions: JSON) -> types.Type | None:
    return schemas(root, **definitions).type_of("example.com", "v1", "Widget")


def field(schema: JSON, **definitions: JSON) -> types.Type | None:
    root = {"type": "object", "properties": {"f": schema}}
    found = widget(root, **definitions)
    assert isinstance(found, types.Object)
    return found.field("f")


FIELDS: list[tuple[JSON, types.Type]] = [
    ({"type": "string"}, types.STRING),
    ({"type": "string", "format": "date-time"}, types.TIMESTAMP),
    ({"type": "string", "format": "date"}, types.TIMESTAMP),
    ({"type": "string", "format": "byte"}, types.BYTES),
    ({"type": "string", "format": "duration"}, types.DURATION),
    ({"type": "string", "format": "int-or-string"}, types.DYN),
    ({"type": "string", "format": "anything"}, types.STRING),
    ({"type": "boolean"}, types.BOOL),
    ({"type": "integer", "format": "int64"}, types.INT),
    ({"type": "number", "format": "double"}, types.DOUBLE),
    ({"x-kubernetes-int-or-string": True}, types.DYN),
    ({"oneOf": [{"type": "string"}, {"type": "number"}]}, types.DYN),
    ({}, types.DYN),
    ({"type": "array", "items": STRING_SCHEMA}, types.ListOf(types.STRING)),
    ({"type": "array"}, types.DYN),
    (
        {"type": "object", "additionalProperties": STRING_SCHEMA},
        types.MapOf(types.STRING),
    ),
    ({"type": "object", "additionalProperties": True}, types.DYN),
    ({"type": "object", "additionalProperties": {}}, types.MapOf(types.DYN)),
    ({"type": "object"}, types.DYN),
    ({"type": "object", "x-kubernetes-preserve-unknown-fields": True}, types.DYN),
    (
        {
            "type": "object",
            "properties": {"a": STRING_SCHEMA},
            "x-kubernetes-embedded-resource": True,
        },
        types.DYN,
    ),
    ({"$ref": "#/components/schemas/text"}, types.STRING),
    ({"allOf": [{"$ref": "#/components/schemas/text"}], "default": {}}, types.STRING),
    ({"$ref": "#/components/schemas/absent"}, types.DYN),
]


@pytest.mark.parametrize(("schema", "expected"), FIELDS)
def test_a_schema_has_a_type(schema: JSON, expected: types.Type) -> None:
    assert field(schema, text=STRING_SCHEMA) == expected


def test_a_resource_has_a_kind_and_metadata() -> None:
    """Also if its schema does not say so."""
    found = widget({"type": "object", "properties": {"spec": STRING_SCHEMA}})
    assert isinstance(found, types.Object)
    assert [found.field(each) for each in ("kind", "apiVersion")] == [
        types.STRING,
        types.STRING,
    ]
    assert found.field("status") is None
    metadata = found.field("metadata")
    assert isinstance(metadata, types.Object)
    assert metadata.field("name") == types.STRING
    assert metadata.field("label") is None


def test_a_kind_without_fields_may_have_any() -> None:
    """As a custom resource that keeps unknown fields; an unknown kind has no type."""
    keeps = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    assert widget(keeps) == types.DYN
    some = {**keeps, "properties": {"a": STRING_SCHEMA}}
    found = widget(some)
    assert isinstance(found, types.Object)
    assert (found.field("a"), found.field("b")) == (types.STRING, types.DYN)
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
    assert isinstance(found, types.Object)
    assert (found.field("name"), found.field("next")) == (types.STRING, types.DYN)


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
    assert field({"$ref": "#/components/schemas/strange"}, strange=strange) == types.DYN
