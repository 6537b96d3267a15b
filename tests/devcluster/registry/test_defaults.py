"""Defaults as a mapping: what is filled in, and what stays absent."""

from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.strategy import fill


@pytest.mark.parametrize(
    ("obj", "defaults", "filled"),
    [
        ({}, {"a": 1}, {"a": 1}),
        ({"a": 0}, {"a": 1}, {"a": 0}),
        ({"b": {"x": 1}}, {"b": {"c": 2}}, {"b": {"x": 1, "c": 2}}),
        ({}, {"b": {"c": 2}}, {}),
        ({}, {"spec": {"c": 2}}, {"spec": {"c": 2}}),
        ({"d": [{}, {"e": 1}]}, {"d[]": {"e": 3}}, {"d": [{"e": 3}, {"e": 1}]}),
        ({}, {"a": {}, "b": []}, {"a": {}, "b": []}),
    ],
)
def test_absent_fields_are_filled_in(
    obj: JSON, defaults: dict[str, Any], filled: JSON
) -> None:
    """Only the spec is made; another absent object stays absent."""
    fill(obj, defaults)
    assert obj == filled


def test_two_objects_share_no_default() -> None:
    """A later change of one object must not change the other."""
    first: JSON = {}
    second: JSON = {}
    for each in (first, second):
        fill(each, {"a": {}, "b": [1]})
    assert first["a"] is not second["a"]
    assert first["b"] is not second["b"]
