"""Schemas prune, fill in defaults, and report errors, as a real API server does."""

from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.registry.apiextensions.schemas.keywords import (
    go_number,
)
from controller_manager.devcluster.registry.apiextensions.schemas.objects import (
    defaulted,
    pruned,
    validate_embedded,
    validate_lists,
)
from controller_manager.devcluster.registry.apiextensions.schemas.validation import (
    has_format,
    validate_value,
)

INTEGER: JSON = {"type": "integer"}
TEXT: JSON = {"type": "string"}
ANY: JSON = {"x-kubernetes-preserve-unknown-fields": True}


def an_object(**properties: JSON) -> JSON:
    return {"type": "object", "properties": properties}


def a_list(items: JSON, **more: Any) -> JSON:
    return {"type": "array", "items": items, **more}


def in_x(schema: JSON, value: Any) -> list[str]:
    """Return the errors in the value of the field x of an object."""
    return [str(each) for each in validate_value({"x": value}, an_object(x=schema))]


@pytest.mark.parametrize(
    ("schema", "value", "problem"),
    [
        (TEXT, 1, '"integer": x in body must be of type string: "integer"'),
        (INTEGER, "1", '"string": x in body must be of type integer: "string"'),
        (INTEGER, 1.5, '"number": x in body must be of type integer: "number"'),
        (INTEGER, True, '"boolean": x in body must be of type integer: "boolean"'),
        (TEXT, None, '"null": x in body must be of type string: "null"'),
        (an_object(), [], '"array": x in body must be of type object: "array"'),
        (
            {"x-kubernetes-int-or-string": True},
            {},
            '"object": x in body must be of type integer,string: "object"',
        ),
        ({**TEXT, "pattern": "^a"}, "b", "\"b\": x in body should match '^a'"),
        (
            {**TEXT, "minLength": 1},
            "",
            '"": x in body should be at least 1 chars long',
        ),
        (
            {**TEXT, "format": "date-time"},
            "now",
            '"now": x in body must be of type date-time: "now"',
        ),
        (
            {**TEXT, "format": "date-time"},
            5,
            '"int64": x in body must be of type date-time: "int64"',
        ),
        (
            {**INTEGER, "minimum": 1},
            0,
            "0: x in body should be greater than or equal to 1",
        ),
        (
            {**INTEGER, "minimum": 1, "exclusiveMinimum": True},
            1,
            "1: x in body should be greater than 1",
        ),
        (
            {**INTEGER, "maximum": 2147483647},
            2**31,
            "2147483648: x in body should be less than or equal to 2.147483647e+09",
        ),
        (
            {"type": "number", "maximum": 0.5, "exclusiveMaximum": True},
            0.5,
            "0.5: x in body should be less than 0.5",
        ),
        (
            {**INTEGER, "multipleOf": 3},
            4,
            "4: x in body should be a multiple of 3",
        ),
        (a_list(TEXT, minItems=1), [], "0: x in body should have at least 1 items"),
        (
            {"type": "object", "minProperties": 1},
            {},
            "0: x in body should have at least 1 properties",
        ),
    ],
)
def test_a_wrong_value_is_named_as_upstream_names_it(
    schema: JSON, value: Any, problem: str
) -> None:
    """The message has the value, the field, and the rule."""
    assert in_x(schema, value) == [f"x: Invalid value: {problem}"]


@pytest.mark.parametrize(
    ("schema", "value", "problem"),
    [
        (
            {**TEXT, "enum": ["a", "b"]},
            "c",
            'x: Unsupported value: "c": supported values: "a", "b"',
        ),
        (
            {**INTEGER, "enum": [1]},
            True,
            'x: Unsupported value: true: supported values: "1"',
        ),
        (
            {**TEXT, "maxLength": 2},
            "äöü",
            "x: Too long: may not be more than 2 bytes",
        ),
        (
            a_list(TEXT, maxItems=1),
            ["a", "b"],
            "x: Too many: 2: must have at most 1 item",
        ),
        (
            {"type": "object", "maxProperties": 1, **ANY},
            {"a": 1, "b": 2},
            "x: Too many: 2: must have at most 1 item",
        ),
        ({"type": "object", "required": ["y"]}, {}, "x.y: Required value"),
        (
            {"type": "object", "additionalProperties": False},
            {"y": 1},
            'x: Invalid value: "": x.y in body is a forbidden property',
        ),
        (
            a_list(an_object(y=INTEGER)),
            [{"y": 1}, {"y": "a"}],
            (
                'x[1].y: Invalid value: "string": x[1].y in body must be of type '
                'integer: "string"'
            ),
        ),
        (
            {"type": "object", "additionalProperties": TEXT},
            {"k": 1},
            (
                'x.k: Invalid value: "integer": x.k in body must be of type string: '
                '"integer"'
            ),
        ),
    ],
)
def test_each_word_of_a_schema_has_its_message(
    schema: JSON, value: Any, problem: str
) -> None:
    """The values that may be there are in it, or the limit."""
    causes = [each for each in in_x(schema, value) if "must be of type" not in each]
    assert (causes or in_x(schema, value)) == [problem]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (INTEGER, 1.0),
        ({"type": "number"}, 1),
        ({**TEXT, "nullable": True}, None),
        ({"x-kubernetes-int-or-string": True}, "50%"),
        ({"x-kubernetes-int-or-string": True}, 5),
        (ANY, [{"a": [1]}]),
        ({**TEXT, "format": "unheard-of"}, "x"),
        ({**TEXT, "format": "int32"}, "x"),
        ({**TEXT, "maxLength": 3}, "äöü"),
        ({"type": "number", "multipleOf": 0.1}, 0.3),
        ({**TEXT, "not": {"enum": ["b"]}}, "a"),
    ],
)
def test_a_value_that_a_schema_allows_has_no_errors(schema: JSON, value: Any) -> None:
    """The server finds no error in it."""
    assert in_x(schema, value) == []


COMBINED = an_object(a=TEXT, b=TEXT)
EITHER = [{"required": ["a"]}, {"required": ["b"]}]


@pytest.mark.parametrize(
    ("word", "value", "problems"),
    [
        (
            "oneOf",
            {},
            ['"x" must validate one and only one schema (oneOf). Found none valid'],
        ),
        (
            "oneOf",
            {"a": "1", "b": "2"},
            [
                (
                    '"x" must validate one and only one schema (oneOf). '
                    "Found 2 valid alternatives"
                )
            ],
        ),
        ("oneOf", {"a": "1"}, []),
        ("anyOf", {}, ['"x" must validate at least one schema (anyOf)']),
        ("anyOf", {"a": "1", "b": "2"}, []),
        ("allOf", {"b": "2"}, ['"x" must validate all the schemas (allOf)']),
    ],
)
def test_combinations_say_how_many_fit(
    word: str, value: JSON, problems: list[str]
) -> None:
    """They name no field, as upstream's; the errors of the nearest schema follow."""
    found = in_x({**COMBINED, word: EITHER}, value)
    combined = [each for each in found if each.startswith("<nil>")]
    assert combined == [f'<nil>: Invalid value: "": {each}' for each in problems]
    if problems and "2 valid" not in problems[0]:
        assert "x.a: Required value" in found


def test_a_value_that_must_not_fit_is_refused() -> None:
    """By the schema in ``not``."""
    assert in_x({**TEXT, "not": {"enum": ["b"]}}, "b") == [
        '<nil>: Invalid value: "": "x" must not validate the schema (not)'
    ]


def test_unchanged_parts_are_not_checked_again() -> None:
    """Also in items that have keys; the others cannot be told apart."""
    keyed = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
    items = an_object(k=TEXT, v={**INTEGER, "maximum": 1})
    schema = an_object(
        plain={**INTEGER, "maximum": 1},
        keyed=a_list(items, **keyed),
        atoms=a_list(items),
    )
    old = {"plain": 5, "keyed": [{"k": "a", "v": 5}], "atoms": [{"k": "a", "v": 5}]}
    assert validate_value(old, schema, old=old) == []
    new = {
        "plain": 5,
        "keyed": [{"k": "b", "v": 7}, {"k": "a", "v": 5}],
        "atoms": [{"k": "a", "v": 5}, {"k": "b", "v": 1}],
    }
    found = [each.field for each in validate_value(new, schema, old=old)]
    assert found == ["keyed[0].v", "atoms[0].v"]


def test_unknown_fields_are_pruned_and_named() -> None:
    """But not where a schema preserves them, nor the metadata of a resource."""
    schema = an_object(
        known=TEXT,
        items=a_list(an_object(a=TEXT)),
        labels={"type": "object", "additionalProperties": an_object(a=TEXT)},
        kept={"type": "object", **ANY, "properties": {"in": an_object(a=TEXT)}},
        free=ANY,
        template={"type": "object", "x-kubernetes-embedded-resource": True},
    )
    value = {
        "metadata": {"name": "a"},
        "known": "a",
        "odd": 1,
        "items": [{"a": "1"}, {"b": "2"}],
        "labels": {"k": {"a": "1", "c": "2"}},
        "kept": {"more": {"deep": 1}, "in": {"a": "1", "z": "2"}},
        "free": [{"deep": [1]}],
        "template": {"kind": "A", "metadata": {"name": "b"}, "spec": {}},
    }
    result, unknown = pruned(value, schema, is_resource=True)
    assert result == {
        "metadata": {"name": "a"},
        "known": "a",
        "items": [{"a": "1"}, {}],
        "labels": {"k": {"a": "1"}},
        "kept": {"more": {"deep": 1}, "in": {"a": "1"}},
        "free": [{"deep": [1]}],
        "template": {"kind": "A", "metadata": {"name": "b"}},
    }
    assert unknown == [
        "odd",
        "items[1].b",
        "labels.k.c",
        "kept.in.z",
        "template.spec",
    ]


def test_defaults_are_filled_in_and_wrong_nulls_go() -> None:
    """A null becomes the default, goes, or stays where the schema allows it."""
    schema = an_object(
        a={**INTEGER, "default": 1},
        b={**TEXT, "default": "x"},
        gone=TEXT,
        stays={**TEXT, "nullable": True, "default": "y"},
        outer={**an_object(inner={**TEXT, "default": "in"}), "default": {}},
        items=a_list(an_object(c={**INTEGER, "default": 2})),
        named={"type": "object", "additionalProperties": TEXT},
    )
    value = {
        "b": None,
        "gone": None,
        "stays": None,
        "items": [{}, {"c": 5}],
        "named": {"k": "v", "n": None},
    }
    before = repr(value)
    assert defaulted(value, schema) == {
        "a": 1,
        "b": "x",
        "stays": None,
        "outer": {"inner": "in"},
        "items": [{"c": 2}, {"c": 5}],
        "named": {"k": "v"},
    }
    assert repr(value) == before


def test_nothing_may_be_twice_in_a_set_or_a_map() -> None:
    """Items of a map are the same if their keys are."""
    keys = ["port", "protocol"]
    port = an_object(port=INTEGER, protocol=TEXT, name=TEXT)
    schema = an_object(
        tags=a_list(TEXT, **{"x-kubernetes-list-type": "set"}),
        ports=a_list(
            port,
            **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys},
        ),
        free=a_list(TEXT),
    )
    value = {
        "tags": ["a", "b", "a", "a"],
        "ports": [
            {"port": 1, "protocol": "TCP", "name": "a"},
            {"port": 1, "protocol": "UDP"},
            {"port": 1, "protocol": "TCP", "name": "b"},
        ],
        "free": ["a", "a"],
    }
    assert [str(each) for each in validate_lists(value, schema)] == [
        'tags[2]: Duplicate value: "a"',
        'ports[2]: Duplicate value: {"port":1,"protocol":"TCP"}',
    ]


def test_an_embedded_resource_needs_what_each_resource_has() -> None:
    """A version and a kind; and its labels are right."""
    schema = an_object(
        templates=a_list({"type": "object", "x-kubernetes-embedded-resource": True})
    )
    templates = [
        {"kind": "A", "apiVersion": "v1", "metadata": {"labels": {"a": "b"}}},
        {"metadata": {"labels": {"a": "-"}}},
        {"kind": "A", "apiVersion": "v1", "metadata": {"labels": 5}},
    ]
    causes = validate_embedded({"templates": templates}, schema)
    assert [(each.field, each.reason) for each in causes] == [
        ("templates[1].apiVersion", "FieldValueRequired"),
        ("templates[1].kind", "FieldValueRequired"),
        ("templates[1].metadata.labels", "FieldValueInvalid"),
        ("templates[2].metadata", "FieldValueInvalid"),
    ]


@pytest.mark.parametrize(
    ("format_", "right", "wrong"),
    [
        ("byte", "YWI=", "a"),
        ("cidr", "10.0.0.1/8", "10.0.0.1"),
        ("creditcard", "4111 1111 1111 1111", "4111 1111 1111 1112"),
        ("date", "2024-02-29", "2023-02-29"),
        ("date-time", "2024-02-29T10:00:00.5Z", "2024-02-29 10:00:00"),
        ("duration", "1h30m", "1 fortnight"),
        ("email", "a@b.c", "a"),
        ("hexcolor", "#fff", "#ff"),
        ("hostname", "a-b.example.com", "-a"),
        ("ipv4", "1.2.3.4", "::1"),
        ("ipv6", "::1", "1.2.3.4"),
        ("isbn", "978-0321751041", "978-0321751042"),
        ("isbn10", "0321751043", "0321751044"),
        ("mac", "01:23:45:67:89:ab", "01:23"),
        ("rgbcolor", "rgb(1, 2, 255)", "rgb(1, 2)"),
        ("ssn", "123-45-6789", "12"),
        ("uri", "https://a.b/c", "a b"),
        ("uuid", "123e4567-e89b-12d3-a456-426614174000", "x"),
        ("uuid4", "123e4567-e89b-42d3-a456-426614174000", "x"),
    ],
)
def test_a_format_tells_right_from_wrong(format_: str, right: str, wrong: str) -> None:
    """As Go's packages would."""
    assert has_format(right, format_)
    assert not has_format(wrong, format_)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (10, "10"),
        (65535, "65535"),
        (1000000, "1e+06"),
        (-2.5, "-2.5"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (123456789, "1.23456789e+08"),
    ],
)
def test_a_number_is_printed_as_go_prints_it(number: float, text: str) -> None:
    """With an exponent from a million on."""
    assert go_number(number) == text
