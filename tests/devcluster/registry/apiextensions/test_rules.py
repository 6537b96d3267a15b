"""Rules in CEL: validation of definitions, and errors in objects."""

from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.registry.apiextensions.schemas.keywords import ABSENT
from controller_manager.devcluster.registry.apiextensions.schemas.rules import Rules
from controller_manager.devcluster.scheme.statuses import Cause, invalid, required
from tests.devcluster.rows import rows

TEXT: JSON = {"type": "string"}
INTEGER: JSON = {"type": "integer"}
RULES = "x-kubernetes-validations"


def ruled(schema: JSON, *rules: str | JSON) -> JSON:
    given = [{"rule": each} if isinstance(each, str) else each for each in rules]
    return {**schema, RULES: given}


def an_object(**properties: JSON) -> JSON:
    return {"type": "object", "properties": properties}


def found(schema: JSON, obj: JSON, old: Any = ABSENT, *known: Cause) -> list[str]:
    """Return the errors that the rules of a schema find in an object."""
    return [str(each) for each in Rules(schema).validate(obj, [*known], old)]


RANGE = ruled(an_object(least=INTEGER, most=INTEGER), "self.least <= self.most")


def test_a_rule_that_does_not_hold_is_the_cause() -> None:
    schema = an_object(x=RANGE)
    assert found(schema, {"x": {"least": 1, "most": 2}}) == []
    assert found(schema, {"x": {"least": 2, "most": 1}}) == [
        'x: Invalid value: "object": failed rule: self.least <= self.most'
    ]
    assert found(schema, {"x": {"most": 1}}) == [
        (
            'x: Invalid value: "object": no such key: least evaluating rule: '
            "self.least <= self.most"
        )
    ]
    assert found(schema, {}) == []


@rows("rule", "text")
def test_a_rule_has_a_message(rule: JSON, text: str) -> None:
    """By a message, or an expression that makes one; and a reason."""
    schema = an_object(x=ruled(INTEGER, {"rule": "self % 2 == 0", **rule}))
    assert found(schema, {"x": 3}) == [f"x: {text}"]


def test_a_rule_names_the_field_that_is_wrong() -> None:
    rule = {"rule": "false", "fieldPath": ".y.z", "message": "no"}
    inner = an_object(y=an_object(z=TEXT))
    schema = an_object(x=ruled(inner, rule))
    assert found(schema, {"x": {}}) == ['x.y.z: Invalid value: "object": no']
    assert found(ruled(inner, rule), {}) == ['y.z: Invalid value: "object": no']


def test_rules_stand_anywhere() -> None:
    """At the root, in items, and in maps; the root has a name, too."""
    schema = ruled(
        an_object(
            items={"type": "array", "items": ruled(TEXT, "self != 'b'")},
            map={"type": "object", "additionalProperties": ruled(INTEGER, "self < 2")},
        ),
        "self.metadata.name.startsWith('a')",
    )
    obj = {"metadata": {"name": "c"}, "items": ["a", "b"], "map": {"k": 2}}
    assert found(schema, obj) == [
        (
            '<nil>: Invalid value: "object": failed rule: '
            "self.metadata.name.startsWith('a')"
        ),
        "items[1]: Invalid value: \"string\": failed rule: self != 'b'",
        'map[k]: Invalid value: "integer": failed rule: self < 2',
    ]


def test_values_have_the_types_of_the_schema() -> None:
    schema = ruled(
        {
            "type": "object",
            "properties": {
                "ratio": {"type": "number"},
                "when": {"type": "string", "format": "date-time"},
                "wait": {"type": "string", "format": "duration"},
                "blob": {"type": "string", "format": "byte"},
                "port": {"x-kubernetes-int-or-string": True},
                "namespace": TEXT,
                "a-b": TEXT,
            },
        },
        "self.ratio / 2.0 == 0.5",
        "self.when.getFullYear() == 2024",
        "self.wait == duration('90s')",
        "self.blob == b'ab'",
        "type(self.port) == int ? self.port > 0 : self.port.endsWith('%')",
        "self.__namespace__ == 'x' && self.a__dash__b == 'y'",
        "!has(self.absent) || true",
    )
    obj = {
        "ratio": 1,
        "when": "2024-05-01T00:00:00Z",
        "wait": "1m30s",
        "blob": "YWI=",
        "port": "50%",
        "namespace": "x",
        "a-b": "y",
    }
    assert found(schema, obj) == []
    assert found(schema, {**obj, "port": 80}) == []
    assert len(found(schema, {**obj, "port": -1, "ratio": 2})) == 2


def test_a_transition_needs_something_before_it() -> None:
    """It compares; the items of a list only by their keys."""
    keyed = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
    items = an_object(k=TEXT, v=ruled(INTEGER, "self >= oldSelf"))
    schema = an_object(
        x=ruled(INTEGER, {"rule": "self == oldSelf", "message": "fixed"}),
        list={"type": "array", "items": items, **keyed},
    )
    old = {"x": 1, "list": [{"k": "a", "v": 1}, {"k": "b", "v": 2}]}
    assert found(schema, old) == []
    assert found(schema, old, old) == []
    new = {"x": 2, "list": [{"k": "b", "v": 1}, {"k": "a", "v": 1}, {"k": "c", "v": 0}]}
    assert found(schema, new, old) == [
        'x: Invalid value: "integer": fixed',
        'list[0].v: Invalid value: "integer": failed rule: self >= oldSelf',
    ]
    assert found(schema, new, {}) == []


def test_a_transition_may_begin_from_nothing() -> None:
    rule = {"rule": "oldSelf.hasValue() || self == 0", "optionalOldSelf": True}
    schema = an_object(x=ruled(INTEGER, rule))
    assert found(schema, {"x": 0}) == []
    assert len(found(schema, {"x": 1})) == 1
    assert found(schema, {"x": 1}, {"x": 0}) == []


def test_unchanged_parts_are_not_checked_again() -> None:
    schema = an_object(x=RANGE, y=TEXT)
    old = {"x": {"least": 2, "most": 1}}
    assert found(schema, {**old, "y": "a"}, old) == []
    changed = {"x": {"least": 3, "most": 1}}
    assert len(found(schema, changed, old)) == 1


def test_rules_wait_until_the_object_fits_its_schema() -> None:
    schema = an_object(x=RANGE)
    obj = {"x": {"least": 2, "most": 1}}
    assert found(schema, obj, ABSENT, required("y")) == [
        (
            '<nil>: Invalid value: "null": some validation rules were not checked '
            "because the object was invalid; correct the existing errors to complete "
            "validation"
        )
    ]
    assert len(found(schema, obj, ABSENT, invalid("y", "1", "odd"))) == 1


def test_a_rule_that_takes_too_long_ends_all() -> None:
    loops = "self.all(x, self.all(y, x == y))"
    strings = ruled({"type": "array", "items": {"type": "string"}}, loops, "true")
    assert found(an_object(x=strings), {"x": ["k" * 20] * 725}) == [
        (
            'x: Invalid value: "array": \'operation cancelled: actual cost limit '
            "exceeded': no further validation rules will be run due to call cost "
            "exceeds limit for rule: self.all(x, self.all(y, x == y))"
        )
    ]


@pytest.mark.slow
def test_rules_that_take_too_long_together_end() -> None:
    loops = "self.all(a, self.all(b, a + b >= 0))"
    numbers = ruled({"type": "array", "items": INTEGER}, loops)
    schema = an_object(x=numbers, y=numbers, z=numbers)
    most = [0] * 200
    assert found(schema, {"x": most, "y": most}) == []
    assert found(schema, {"x": most, "y": most, "z": most}) == [
        (
            '<nil>: Invalid value: "object": validation failed due to running out of '
            "cost budget, no further validation rules will be run"
        )
    ]


# Definitions
