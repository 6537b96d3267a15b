"""Bodies in YAML are read as Go reads them, and none hangs the server."""

from typing import Any

import pytest

from controller_manager import yaml_files
from controller_manager.devcluster.scheme.decoding import (
    ReadBody,
    YAMLBodyError,
    decode_yaml,
    repeated_keys,
)

INF = float("inf")
BOMB = "\n".join(
    ["a0: &a0 {x: y}"] + [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 40)]
)


MERGES = "\n".join(
    ["a0: &a0 {k: v}"]
    + [f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}" for n in range(1, 40)]
)
WIDE = f"a: &a [{'x, ' * 999}]\nb: [{'*a, ' * 1000}]"
TAGS = "".join(f"%TAG !t{n}! x:{n}\n" for n in range(100_000)) + "--- a"
PYTHON = (
    "could not determine a constructor for the tag "
    "'tag:yaml.org,2002:python/object/apply:os.getcwd'"
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{a: 1, b: [x, 2.5, null]}", {"a": 1, "b": ["x", 2.5, None]}),
        ("2: a\ntrue: b\nnull: c", {"2": "a", "true": "b", "null": "c"}),
        ("day: 2001-01-01", {"day": "2001-01-01"}),
        ("port: 22:22\ntime: -1:30.5", {"port": "22:22", "time": "-1:30.5"}),
        ("a: 0x10\nb: 010\nc: -1e3\nd: .inf", {"a": 16, "b": 8, "c": "-1e3", "d": INF}),
        ("a: &a {x: y}\nb: *a", {"a": {"x": "y"}, "b": {"x": "y"}}),
        ("a: !!binary aGVsbG8=", {"a": "hello"}),
    ],
)
def test_yaml_becomes_json(text: str, value: Any) -> None:
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
        (MERGES, "document contains excessive aliasing"),
        (WIDE, "document contains excessive aliasing"),
        (TAGS, "has too many tag directives"),
        ("a: " + "1:" * 50_000 + "1", "has a long number"),
        ("a: !!int " + "1:" * 50_000 + "1", "has a long number"),
        ("a: *b", "found undefined alias"),
        ("a: !!int ''", "string index out of range"),
        ("a: !!bool x", "'x'"),
        ("a: !!timestamp x", "'NoneType' object has no attribute 'groupdict'"),
        ("a: !!python/object/apply:os.getcwd []", PYTHON),
        ("a: b: c", "mapping values are not allowed in this context"),
        ("? [1]\n: 2", "found unhashable key"),
    ],
)
def test_a_body_that_cannot_be_read_is_refused(text: str, problem: str) -> None:
    """At once, however much it would become."""
    with pytest.raises(YAMLBodyError) as caught:
        decode_yaml(text.encode())
    assert str(caught.value) == problem


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"a: \xff", "invalid leading UTF-8 octet"),
        ("a: [".encode("utf-16"), "did not find expected node content"),
    ],
)
def test_a_body_that_is_no_text_is_refused(body: bytes, problem: str) -> None:
    """Text is UTF-8, or UTF-16 that says so."""
    with pytest.raises(YAMLBodyError) as caught:
        decode_yaml(body)
    assert str(caught.value) == problem


@pytest.mark.parametrize("text", ["[" + "x, " * 100 + "]", "{" + "x, " * 100 + "}"])
def test_a_body_may_have_many_values_but_not_any_number(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(yaml_files, "_MOST_VALUES", 50)
    with pytest.raises(YAMLBodyError, match="has more than 50 values"):
        decode_yaml(text.encode())


def test_the_levels_of_an_alias_count() -> None:

    def nested(levels: int) -> bytes:
        deep, deeper = "[" * 90 + "x" + "]" * 90, "[" * levels + "*b" + "]" * levels
        return f"a: &a {deep}\nb: &b [y, *a, z]\nc: {deeper}".encode()

    assert decode_yaml(nested(108))["b"][2] == "z"
    with pytest.raises(YAMLBodyError) as caught:
        decode_yaml(nested(109))
    assert str(caught.value) == "exceeded max depth"


def test_a_body_that_was_read_in_advance_gives_the_same_answers() -> None:
    document = b"2: a\ntrue: [x, 2.5, null, .inf]\n2: b"
    read = ReadBody(document)
    assert read == document
    assert decode_yaml(read) == decode_yaml(document)
    assert decode_yaml(read) is not decode_yaml(read)
    assert repeated_keys(read) == repeated_keys(document) != []
    for wrong in (b"a: [", b"[" * 1000, b"a: \xff"):
        messages = []
        for body in (wrong, ReadBody(wrong)):
            with pytest.raises(YAMLBodyError) as caught:
                decode_yaml(body)
            messages.append(str(caught.value))
        assert messages[0] == messages[1]
