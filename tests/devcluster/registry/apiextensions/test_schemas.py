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
from tests.devcluster.registry.apiextensions.test_definitions import CASES

INTEGER: JSON = {"type": "integer"}
TEXT: JSON = {"type": "string"}
ANY: JSON = {"x-kubernetes-preserve-unknown-fields": True}


def an_object(**properties: JSON) -> JSON:
    return {"type": "object", "properties": properties}


def a_list(items: JSON, **more: Any) -> JSON:
    return {"type": "array", "items": items, **more}


@pytest.mark.parametrize("case", CASES["values"])
def test_the_errors_in_a_value_are_those_of_upstream(case: JSON) -> None:
    """The messages have the value, the field, and the rule; a right value has none."""
    schema = an_object(x=case["field"])
    causes = validate_value({"x": case["value"]}, schema)
    assert [str(each) for each in causes] == case["says"]


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
    assert unknown == ["odd", "items[1].b", "labels.k.c", "kept.in.z", "template.spec"]


def test_defaults_are_filled_in_and_wrong_nulls_go() -> None:
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
    assert go_number(number) == text
