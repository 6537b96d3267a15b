"""A patch changes what a typed function has changed, and keeps what no type has."""

from typing import Any

import pytest

from controller_manager.devcluster.scheme.patches import json_patch
from controller_manager.webhooks.patch import patch_of


@pytest.mark.parametrize(
    ("given", "old", "new", "wanted"),
    [
        ({"a": 1, "x": 9}, {"a": 1}, {"a": 2}, {"a": 2, "x": 9}),
        ({"a": 1, "x": 9}, {"a": 1}, {}, {"x": 9}),
        ({"x": 9}, {}, {"a": 1}, {"x": 9, "a": 1}),
        ({"a": 1, "x": None}, {}, {"a": 2}, {"a": 2, "x": None}),
        ({"a": None}, {}, {"a": {"b": 1}}, {"a": {"b": 1}}),
        # A default is left out of the typed form, which must not lose its neighbours.
        ({"s": {"x": 9}}, {}, {"s": {"a": 1}}, {"s": {"x": 9, "a": 1}}),
        ({"a~/b": {"c": 1}}, {"a~/b": {"c": 1}}, {"a~/b": {}}, {"a~/b": {}}),
        ({"l": [1, 2]}, {"l": [1, 2]}, {"l": [1, 3]}, {"l": [1, 3]}),
        ({"l": [1, 2]}, {"l": [1, 2]}, {"l": [2]}, {"l": [2]}),
        # Items keep fields without a type wherever they move.
        (
            {"l": [{"name": "a", "x": 1}, {"name": "b", "x": 2}]},
            {"l": [{"name": "a"}, {"name": "b"}]},
            {"l": [{"name": "n"}, {"name": "b", "v": 1}, {"name": "a"}]},
            {
                "l": [
                    {"name": "n"},
                    {"name": "b", "x": 2, "v": 1},
                    {"name": "a", "x": 1},
                ]
            },
        ),
        (
            {"l": [{"v": 1, "x": 1}, {"v": 2, "x": 2}]},
            {"l": [{"v": 1}, {"v": 2}]},
            {"l": [{"v": 3}, {"v": 2}]},
            {"l": [{"v": 3, "x": 1}, {"v": 2, "x": 2}]},
        ),
        (
            {"l": [{"v": 1, "x": 1}, {"v": 2, "x": 2}]},
            {"l": [{"v": 1}, {"v": 2}]},
            {"l": [{"v": 2}]},
            {"l": [{"v": 2, "x": 2}]},
        ),
    ],
)
def test_the_patch_leads_to_the_merged_object(
    given: Any, old: Any, new: Any, wanted: Any
) -> None:
    assert json_patch(given, patch_of(given, old, new)) == wanted


def test_nothing_changed_is_no_patch_and_a_small_change_is_a_small_one() -> None:
    given = {"s": {"l": [{"a": 1}, {"a": 2, "x": 9}]}}
    old = {"s": {"l": [{"a": 1}, {"a": 2}]}}
    assert patch_of(given, old, old) == []
    new = {"s": {"l": [{"a": 1}, {"a": 3}]}}
    assert patch_of(given, old, new) == [
        {"op": "replace", "path": "/s/l/1/a", "value": 3}
    ]
