"""Bodies in YAML are read as Go reads them, and none hangs the server."""

from typing import Any

import pytest

from controller_manager.devcluster.server.apimachinery.yaml_bodies import (
    YAMLBodyError,
    decode_yaml,
)

BOMB = "\n".join(
    ["a0: &a0 {x: y}"] + [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 40)]
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{a: 1, b: [x, 2.5, null]}", {"a": 1, "b": ["x", 2.5, None]}),
        ("2: a\ntrue: b\nnull: c", {"2": "a", "true": "b", "null": "c"}),
        ("day: 2001-01-01", {"day": "2001-01-01"}),
        ("a: &a {x: y}\nb: *a", {"a": {"x": "y"}, "b": {"x": "y"}}),
        ("a: !!binary aGVsbG8=", {"a": "hello"}),
    ],
)
def test_yaml_becomes_json(text: str, value: Any) -> None:
    """Keys become texts, and dates stay texts."""
    found = decode_yaml(text.encode())
    assert found == value
    if "b" in value and isinstance(found["b"], dict):
        assert found["a"] is not found["b"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[" * 100_000, "exceeded max depth"),
        ("- " * 5000 + "a", "exceeded max depth"),
        (BOMB, "document contains excessive aliasing"),
        ("a: &a [*a]", "document contains excessive aliasing"),
        ("a: b: c", "mapping values are not allowed in this context"),
        ("? [1]\n: 2", "found unhashable key"),
    ],
)
def test_a_body_that_cannot_be_read_is_refused(text: str, problem: str) -> None:
    """At once, however much it would become."""
    with pytest.raises(YAMLBodyError) as caught:
        decode_yaml(text.encode())
    assert str(caught.value) == problem
