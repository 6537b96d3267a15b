"""Expressions are parsed and checked, also against schemas."""

import json
from pathlib import Path

import pytest
import yaml

from controller_manager.api.json_objects import JSON
from controller_manager.cel import types
from controller_manager.cel.checker import check
from controller_manager.cel.parser import parse
from controller_manager.cel.schemas import Schemas
from controller_manager.cel.syntax import (
    Call,
    Collection,
    Identifier,
    Indexing,
    Literal,
    Node,
    Operation,
    Selection,
    SyntaxProblem,
    text_of,
)

A, B = Identifier(0, "a"), Identifier(4, "b")

PARSED: dict[str, Node] = {
    "a": A,
    " (a) // why": Identifier(2, "a"),
    "a.b": Selection(1, A, "b"),
    "a.?b": Selection(1, A, "b", is_optional=True),
    "a.`b-c`": Selection(1, A, "b-c", is_quoted=True),
    "a[1]": Indexing(1, A, Literal(2, "int")),
    "a[?1]": Indexing(1, A, Literal(3, "int"), is_optional=True),
    "a.f(1u)": Call(3, A, "f", (Literal(4, "uint"),)),
    "f(a,)": Call(1, None, "f", (Identifier(2, "a"),)),
    "a + b": Operation(2, "+", (A, B)),
    "a ? 1 : 2": Operation(2, "?:", (A, Literal(4, "int"), Literal(8, "int"))),
    "!a": Operation(0, "!", (Identifier(1, "a"),)),
    "[1, 2]": Collection(0, (Literal(1, "int"), Literal(4, "int"))),
    "[1, ?a]": Collection(0, (Literal(1, "int"), Identifier(5, "a")), optional=(1,)),
    "{'k': 1}": Collection(0, (Literal(1, "string"), Literal(6, "int")), "map"),
    "{?'k': a}": Collection(
        0, (Literal(2, "string"), Identifier(7, "a")), "map", optional=(1,)
    ),
    "M{f: 1}": Collection(1, (Literal(5, "int"),), "message", (), ("f",), "M"),
    "a.M{?`f-g`: 1}": Collection(
        3, (Literal(12, "int"),), "message", (0,), ("f-g",), "a.M"
    ),
}


@pytest.mark.parametrize("text", PARSED)
def test_an_expression_is_read(text: str) -> None:
    """With the offsets that messages of cel-go name."""
    assert parse(text) == PARSED[text]


def shape(node: Node) -> str:
    match node:
        case Operation(operator=operator, operands=operands):
            return f"({f' {operator} '.join(map(shape, operands))})"
        case Identifier(name=name):
            return name
    return "?"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a || b && c", "(a || (b && c))"),
        ("a && b || c && d", "((a && b) || (c && d))"),
        ("a + b * c - d", "((a + (b * c)) - d)"),
        ("a < b == c", "((a < b) == c)"),
        ("a in b && c", "((a in b) && c)"),
        ("a ? b : c ? d : e", "(a ?: b ?: (c ?: d ?: e))"),
        ("a || b ? c : d", "((a || b) ?: c ?: d)"),
    ],
)
def test_operators_bind_as_in_cel(text: str, expected: str) -> None:
    assert shape(parse(text)) == expected


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("0x1F", "int"),
        ("12u", "uint"),
        ("1.5e3", "double"),
        (".5", "double"),
        ("1e9", "double"),
        ("'it\\'s'", "string"),
        ('r"\\d+"', "string"),
        ("'''a\n'b'''", "string"),
        ('b"x"', "bytes"),
        ("true", "bool"),
        ("null", "null_type"),
    ],
)
def test_literals_have_types(text: str, type_: str) -> None:
    assert parse(text) == Literal(0, type_)


ROWS = yaml.safe_load(Path(__file__).with_name("errors.yaml").read_text())


@pytest.mark.parametrize(("text", "problem"), ROWS)
def test_an_invalid_one_has_the_errors_of_cel_go(text: str, problem: str) -> None:
    with pytest.raises(SyntaxProblem) as raised:
        parse(text)
    assert str(raised.value) == f"ERROR: <input>:{problem}"


def test_an_expression_that_is_nested_too_deeply_is_refused() -> None:
    with pytest.raises(SyntaxProblem, match=r"^the expression is nested too deeply$"):
        parse("(" * 5000)


CONTAINER = types.object_of(
    {"name": types.STRING, "image": types.STRING, "ready": types.BOOL}
)
OBJECT = types.object_of(
    {
        "kind": types.STRING,
        "metadata": types.object_of(
            {
                "labels": types.MapOf(types.STRING),
                "name": types.STRING,
                "at": types.TIMESTAMP,
            }
        ),
        "spec": types.object_of(
            {
                "replicas": types.INT,
                "sizes": types.MapOf(types.INT),
                "ratio": types.DOUBLE,
                "port": types.DYN,
                "containers": types.ListOf(CONTAINER),
                "by": types.MapOf(CONTAINER),
            }
        ),
    }
)
NAMES: dict[str, types.Type] = {
    "object": OBJECT,
    "variables": types.object_of({"x": types.INT}),
}

RIGHT = (
    "object.spec.replicas <= 5",
    "object.spec.ratio > 1",
    "object.spec.ratio == 1.0 && object.spec.replicas % 2 == 0",
    "object.metadata.labels.anything == 'x'",
    "object.metadata.labels['a-b'] == 'x' || 'c' in object.metadata.labels",
    "object.metadata.?labels.?env.orValue('none') == 'prod'",
    "has(object.spec.port) ? object.spec.port.anything == 1 : true",
    "object.spec.containers.all(c, c.image.startsWith('a/') && c.ready)",
    "object.spec.containers.map(c, c.name).exists(n, n == 'a')",
    "object.spec.containers.filter(c, c.ready)[0].name != ''",
    "object.spec.containers.map(c, c.ready, c.name)[0] == 'a'",
    "object.spec.by.all(k, k != '') && object.spec.by['a'].image == 'b'",
    "object.spec.by.all(k, v, k != v.name)",
    "object.spec.sizes.filter(k, k != 'a')[0].startsWith('b')",
    "object.spec.sizes.filter(k, k != 'a')[0] == 'b'",
    "object.spec.containers.transformList(i, c, i > 0, c.name)[0] == 'a'",
    "cel.bind(x, object.spec.replicas, x > 1)",
    "object.spec.replicas > variables.x",
    "object.spec == null || object.spec.replicas != null",
    "object.metadata.at > timestamp('2026-01-01T00:00:00Z')",
    "object.metadata.at - object.metadata.at < duration('1h')",
    "[1, 'a', object.kind][0] == dyn(1)",
    "{'a': object.kind}.a == 'x'",
    "anything.else(object.kind).at[0].all",
    "-object.spec.replicas < 0 && !object.spec.containers[0].ready",
    "quantity('1').isGreaterThan(quantity('2'))",
    "request.operation == 'CREATE' && authorizer.group('').check('x').allowed()",
    "object.spec.containers.all(object, object.name != '')",
    "Object{spec: Object.spec{replicas: 1}}.spec.anything",
    "object.spec.replicas + int('1') == 2",
    "object.spec.containers.exists_one(c, c.name == 'a') == true",
)


@pytest.mark.parametrize("text", RIGHT)
def test_a_right_expression_has_no_problem(text: str) -> None:
    assert check(parse(text), NAMES).problems == ()


WRONG: dict[str, list[tuple[int, str]]] = {
    "object.foo == 'bar'": [(6, "undefined field 'foo'")],
    "object.foo.bar == 'bar'": [(6, "undefined field 'foo'")],
    "has(object.foo)": [(3, "undefined field 'foo'")],
    "has(object.foo.bar)": [(10, "undefined field 'foo'")],
    "object.?foo.orValue(1) == 1": [(6, "undefined field 'foo'")],
    "object.?spec.foo.hasValue()": [(12, "undefined field 'foo'")],
    "object.spec.containers.all(c, c.img != '')": [(31, "undefined field 'img'")],
    "object.spec.by.all(k, v, v.img == k)": [(26, "undefined field 'img'")],
    "object.spec.by.a.img == ''": [(16, "undefined field 'img'")],
    "object.spec.containers.map(c, c.ready)[0].x": [
        (41, "type 'bool' does not support field selection")
    ],
    "object.kind.foo": [(11, "type 'string' does not support field selection")],
    "variables.y > 1": [(9, "undefined field 'y'")],
    "object.a || object.b": [(6, "undefined field 'a'"), (18, "undefined field 'b'")],
    "object.spec.replicas == '1'": [
        (21, "found no matching overload for '_==_' applied to '(int, string)'")
    ],
    "object.spec.replicas == 1.0": [
        (21, "found no matching overload for '_==_' applied to '(int, double)'")
    ],
    "object.spec.replicas + 'a'": [
        (21, "found no matching overload for '_+_' applied to '(int, string)'")
    ],
    "object.kind && true": [
        (12, "found no matching overload for '_&&_' applied to '(string, bool)'")
    ],
    "!object.kind": [(0, "found no matching overload for '!_' applied to '(string)'")],
    "cel.bind(x, object.kind, x > 1)": [
        (27, "found no matching overload for '_>_' applied to '(string, int)'")
    ],
    "object.foo == params.bar": [
        (6, "undefined field 'foo'"),
        (14, "undeclared reference to 'params' (in container '')"),
    ],
}


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_expression_has_the_problems_of_upstream(text: str) -> None:
    found = check(parse(text), NAMES, frozenset(("params",))).problems
    assert [(each.at, each.message) for each in found] == WRONG[text]


def test_a_long_expression_is_checked_to_its_end() -> None:
    """Thousands of parts in a row; one that is nested too deeply is not checked."""
    parts = ["object.kind == 'a'"] * 5000
    text = " || ".join([*parts, "object.foo"])
    (problem,) = check(parse(text), NAMES).problems
    assert (problem.at, problem.message) == (len(text) - 4, "undefined field 'foo'")
    deep = "".join(("object", "[0]" * 5000, ".a"))
    assert check(parse(deep), NAMES).problems == ()


def test_problems_are_shown_as_cel_go_shows_them() -> None:
    text = "object.kind == 'ä' &&\n\tobject.metadata.foo"
    problems = check(parse(text), NAMES).problems
    assert text_of(text, problems) == (
        "ERROR: <input>:2:17: undefined field 'foo'\n"
        " |  object.metadata.foo\n"
        " | ................^"
    )
    text = "'ä' == object.foo || object.bar"
    assert text_of(text, check(parse(text), NAMES).problems) == (
        "ERROR: <input>:1:14: undefined field 'foo'\n"
        " | 'ä' == object.foo || object.bar\n"
        " | .\uff0e...........^\n"
        "ERROR: <input>:1:28: undefined field 'bar'\n"
        " | 'ä' == object.foo || object.bar\n"
        " | .\uff0e.........................^"
    )


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("replicas", "replicas"),
        ("foo-bar", "foo__dash__bar"),
        ("a.b/c", "a__dot__b__slash__c"),
        ("a__b", "a__underscores__b"),
        ("namespace", "__namespace__"),
        ("$ref", None),
        ("", None),
    ],
)
def test_names_of_properties_are_escaped(name: str, expected: str | None) -> None:
    """As the API server does, so that they are names of CEL."""
    assert types.escaped(name) == expected


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
