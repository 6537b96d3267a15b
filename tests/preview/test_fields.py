"""The fields in which two objects differ, and values that say the same."""

from typing import Any

import pytest

from controller_manager.preview import fields

READY = {"type": "Ready", "status": "True"}
OTHER = {"type": "Other", "status": "False"}


def test_a_difference_in_a_keyed_list_is_one_of_an_item() -> None:
    old = {"status": {"conditions": [READY, OTHER], "replicas": 1}}
    new = {"status": {"conditions": [OTHER, {**READY, "status": "False"}]}}
    found = dict(fields.differences(old, new))
    path = ("status", "conditions", fields.Item("type", "Ready"), "status")
    assert found == {path: "False", ("status", "replicas"): fields.REMOVED}
    assert fields.shown_path(path) == "status.conditions[type=Ready].status"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"a": {"b": 1}}, {"a": {"b": 2, "c": [1]}}),
        ({}, {"status": {"conditions": [READY, OTHER]}}),
        ({"metadata": {"finalizers": ["a", "b"]}}, {"metadata": {"finalizers": ["b"]}}),
        ({"status": {"conditions": [READY, OTHER]}}, {"status": {}}),
        ({"a": [1, 2]}, {"a": [2]}),
    ],
)
def test_the_differences_make_the_new_object_of_the_old_one(old: Any, new: Any) -> None:
    made = old
    for path, value in fields.differences(old, new):
        made = fields.with_value(made, path, value)
    assert fields.are_same(made, new, 0)
    for path, value in fields.differences(old, new):
        assert fields.are_same(fields.value_at(made, path), value, 0)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:30Z", True),
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:31Z", False),
        ("2026-01-01T00:00:00.000000Z", "2026-01-01T00:00:01Z", True),
        ([1, 2], [2, 1], True),
        ([1, 2], [1, 1], False),
        ({"a": None}, {}, True),
        ({"a": 0}, {"a": 1}, False),
        ("a", "b", False),
        ([{"at": "2026-01-01T00:00:00Z"}], [{"at": "2026-01-01T00:00:09Z"}], True),
    ],
)
def test_values_are_the_same_if_they_say_the_same(
    one: Any, other: Any, expected: bool
) -> None:
    assert fields.are_same(one, other, 30) is expected
    assert fields.are_same(other, one, 30) is expected
