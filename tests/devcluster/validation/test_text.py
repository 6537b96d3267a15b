"""Rules as text: each word, and clear errors for a wrong text."""

from collections.abc import Iterator
from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import Cause, required
from controller_manager.devcluster.validation.text import RuleError, table
from controller_manager.devcluster.validation.values import NOT_A_PORT


def _several(_: JSON, outer: JSON) -> bool:
    return len(outer["ports"]) > 1


def _odd(obj: JSON, path: str, _: JSON) -> Iterator[Cause]:
    if obj.get("number", 0) % 2:
        yield required(f"{path}even")


OUTER = table(
    """
    ports[]:
      name: required if several
      name: unique
      port: port
    """,
    _several,
)


@pytest.mark.parametrize(
    ("text", "obj", "says"),
    [
        ("a: required", {}, ["a: Required value"]),
        ("a: required", {"a": ""}, ["a: Required value"]),
        ("a: required pointer", {"a": 0}, []),
        ('a: required at b "why"', {}, ["b: Required value: why"]),
        ('a, b: forbidden "no"', {"b": 1}, ["b: Forbidden: no"]),
        ('a: forbidden filled "no"', {"a": ""}, []),
        ('a: refused "no"', {"a": 1}, ["a: Invalid value: 1: no"]),
        ('a: invalid if b is 1 "no"', {"a": 1, "b": 1}, ["a: Invalid value: 1: no"]),
        ('a: invalid if b is 1 "no"', {"a": 1}, []),
        ('self: error "no"', {"a": 1}, [": Invalid value: no"]),
        (
            "a: enum X Y",
            {"a": "Z"},
            ['a: Unsupported value: "Z": supported values: "X", "Y"'],
        ),
        ("a: enum X Y", {}, []),
        (
            "a: enum X default null",
            {},
            ['a: Unsupported value: null: supported values: "X"'],
        ),
        ("a: one-of X Y", {}, ['a: Required value: valid values: ["X" "Y"]']),
        (
            "a: range 1 5",
            {"a": 6},
            ["a: Invalid value: 6: must be between 1 and 5, inclusive"],
        ),
        (
            "a: at-least 1 default 0",
            {},
            ["a: Invalid value: 0: must be greater than or equal to 1"],
        ),
        ("a: longest 1", {"a": "ab"}, ["a: Too long: may not be more than 1 byte"]),
        (
            "a: most 1",
            {"a": [1, 2]},
            ["a: Too many: 2: must have at most 1 item"],
        ),
        (
            "a[]: port",
            {"a": [0]},
            ["a[0]: Invalid value: 0: must be between 1 and 65535, inclusive"],
        ),
        ("a[]: unique", {"a": [1, 1]}, ["a[1]: Duplicate value: 1"]),
        (
            "a[]: enum X Y unique",
            {"a": ["Z", "X", "X"]},
            [
                'a[0]: Unsupported value: "Z": supported values: "X", "Y"',
                'a[2]: Duplicate value: "X"',
            ],
        ),
        ("a:\n  b: required", {"a": {}}, ["a.b: Required value"]),
        ("a:\n  b: required", {}, []),
        ("a always:\n  b: required", {}, ["a.b: Required value"]),
        (
            "a[]:\n  b: required if outer has c and lacks d",
            {"a": [{}, {"d": 1}], "c": 1},
            ["a[0].b: Required value"],
        ),
        (
            "a:\n  b outer:\n    x: required if outer has y",
            {"a": {"b": {}}, "y": 1},
            ["a.b.x: Required value"],
        ),
        (
            "when a is 1 2:\n  b: required\nelse:\n  c: required",
            {"a": 3},
            ["c: Required value"],
        ),
        (
            "a[]:\n  b, c: unique",
            {"a": [{"b": 1}, {"b": 1}, {"b": 1, "c": 2}]},
            ['a[1]: Duplicate value: [1,""]'],
        ),
        (
            "a[]:\n  b: unique pointer",
            {"a": [{"b": ""}, {}]},
            ['a[1].b: Duplicate value: ""'],
        ),
        (
            'union: "none" "many"\n  a:\n    x: required\n  b: any',
            {"b": 1, "a": {}},
            ["b: Forbidden: many", "a.x: Required value"],
        ),
        (
            'union besides n: "none" "many"\n  a: any',
            {"n": 1},
            [": Required value: none"],
        ),
    ],
)
def test_a_rule_says_what_is_wrong(text: str, obj: JSON, says: list[str]) -> None:
    """The causes have the words of a real API server."""
    assert [str(each) for each in table(text).errors(obj)] == says


def test_functions_decide_and_check() -> None:
    """The text names them without the underscore."""
    ports = [{"name": "a", "port": 0}, {"name": "a", "port": 70000}, {}]
    assert [str(each) for each in OUTER.errors({"ports": ports}, path="spec.")] == [
        'spec.ports[1].name: Duplicate value: "a"',
        f"spec.ports[1].port: Invalid value: 70000: {NOT_A_PORT}",
        "spec.ports[2].name: Required value",
    ]
    hooked = table("hook odd\ninclude OUTER", _odd, OUTER=OUTER)
    assert [str(each) for each in hooked.errors({"number": 3})] == [
        "even: Required value"
    ]


def test_a_table_about_updates_compares_the_old_object() -> None:
    """The rules of a field with `change` get its old value as their outer object."""
    rules = table(
        'spec change:\n  a: immutable\n  b: immutable "stays"\n  b: kept "no change"'
    )
    new, old = {"spec": {"a": 1}}, {"spec": {"a": 2, "b": 3}}
    assert [str(each) for each in rules.errors(new, old)] == [
        "spec.a: Invalid value: 1: field is immutable",
        "spec.b: Invalid value: null: stays",
        "spec.b: Forbidden: no change",
    ]


@pytest.mark.parametrize(
    ("text", "given", "message"),
    [
        ("a: lable", (), "in the rule 'a: lable': the table is given no lable"),
        ("a:", (), "in the rule 'a:': no indented rules follow"),
        ("a: required", (_odd,), "a table does not use or indents wrongly: odd"),
        (
            "  a: required\n b: required",
            (),
            "a table does not use or indents wrongly: b: required",
        ),
        (
            "hook even",
            (_odd,),
            "in the rule 'hook even': the table is given no even",
        ),
    ],
)
def test_a_wrong_text_is_refused(text: str, given: Any, message: str) -> None:
    """The message has the line and the mistake."""
    with pytest.raises(RuleError) as raised:
        table(text, *given).errors({})
    assert str(raised.value) == message
