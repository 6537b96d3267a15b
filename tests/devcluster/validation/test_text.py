"""Rules as text: each word, and clear errors for a wrong text."""

from collections.abc import Iterator

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import Cause, required
from controller_manager.devcluster.validation.text import RuleError, table
from controller_manager.devcluster.validation.values import NOT_A_PORT
from tests.devcluster.rows import rows


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
    """
)


@rows("text", "obj", "says")
def test_a_rule_says_what_is_wrong(text: str, obj: JSON, says: list[str]) -> None:
    assert [str(each) for each in table(text).errors(obj)] == says


def test_functions_decide_and_check() -> None:
    ports = [{"name": "a", "port": 0}, {"name": "a", "port": 70000}, {}]
    assert [str(each) for each in OUTER.errors({"ports": ports}, path="spec.")] == [
        'spec.ports[1].name: Duplicate value: "a"',
        f"spec.ports[1].port: Invalid value: 70000: {NOT_A_PORT}",
        "spec.ports[2].name: Required value",
    ]
    hooked = table("hook odd\ninclude OUTER")
    assert [str(each) for each in hooked.errors({"number": 3})] == [
        "even: Required value"
    ]


def test_a_table_about_updates_compares_the_old_object() -> None:
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
    ("text", "message"),
    [
        ("a: lable", "in the rule 'a: lable': the module has no lable"),
        ("a:", "in the rule 'a:': no indented rules follow"),
        ("  a: required\n b: required", "a table indents wrongly: b: required"),
        ("hook even", "in the rule 'hook even': the module has no even"),
    ],
)
def test_a_wrong_text_is_refused(text: str, message: str) -> None:
    with pytest.raises(RuleError) as raised:
        table(text).errors({})
    assert str(raised.value) == message
