"""Errors of cel-go's type checker are found, as tables; nothing else is an error."""

import pytest

from controller_manager.cel import types
from controller_manager.cel.checker import check
from controller_manager.cel.parser import parse
from controller_manager.cel.syntax import text_of

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
