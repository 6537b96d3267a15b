"""The three kinds of patches change objects."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.models import OBJECT_META
from controller_manager.devcluster.scheme.patches import (
    PatchError,
    json_patch,
    merge_patch,
    strategic_merge_patch,
)
from tests.devcluster.rows import parsed, rows

CORE = "io.k8s.api.core.v1"
SPEC = f"{CORE}.PodSpec"


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": 1}, {"a": None, "b": {"c": None, "d": 2}}, {"b": {"d": 2}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": {"b": 1}}, {"a": 5}, {"a": 5}),
    ],
)
def test_a_merge_patch_removes_by_null(target: JSON, patch: JSON, result: JSON) -> None:
    """RFC 7386."""
    assert merge_patch(target, patch) == result


values = st.recursive(
    st.integers(0, 3),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)


@given(target=st.dictionaries(st.sampled_from("abc"), values), patch=values)
def test_a_merge_patch_applied_twice_is_applied_once(target: JSON, patch: Any) -> None:
    once = merge_patch(target, patch)
    assert merge_patch(once, patch) == once


@rows("operations", "result")
def test_a_json_patch_does_what_its_operations_say(
    operations: list[JSON], result: JSON
) -> None:
    """RFC 6902; the target itself stays as it was."""
    target = {"l": [1, 2], "m": {"x/y": 1}}
    assert json_patch(target, operations) == result
    assert target == {"l": [1, 2], "m": {"x/y": 1}}


@pytest.mark.parametrize(
    "operations",
    [
        {},
        [{}],
        [{"op": "fly", "path": "/a"}],
        [{"op": "remove", "path": "/absent"}],
        [{"op": "remove", "path": "/a/b/c"}],
        [{"op": "add", "path": "a", "value": 1}],
        [{"op": "add", "path": 5, "value": 1}],
        [{"op": "add", "path": "/l/7", "value": 1}],
        [{"op": "test", "path": "/a", "value": 2}],
    ],
)
def test_a_json_patch_that_cannot_be_applied_is_refused(operations: Any) -> None:
    """As a whole: nothing of it is done."""
    with pytest.raises(PatchError):
        json_patch({"a": 1, "l": []}, operations)


def test_a_strategic_patch_merges_lists_by_their_key() -> None:
    """New items first, others where they were; directives are obeyed."""
    target = {
        "containers": [
            {"name": "a", "image": "a:1", "env": [{"name": "X", "value": "1"}]},
            {"name": "b", "image": "b:1"},
        ],
        "tolerations": [{"key": "t"}],
    }
    patch = {
        "containers": [
            {"name": "b", "$patch": "delete"},
            {"name": "a", "env": [{"name": "Y", "value": "2"}]},
            {"name": "c", "image": "c:1"},
        ],
        "tolerations": [{"key": "u"}],
    }
    assert strategic_merge_patch(target, patch, SPEC) == parsed("""
        containers:
          - name: a
            image: a:1
            env: [{name: Y, value: '2'}, {name: X, value: '1'}]
          - {name: c, image: 'c:1'}
        tolerations: [{key: u}]""")


def test_a_strategic_patch_merges_a_list_without_a_key_as_a_set() -> None:
    patch = {"finalizers": ["three"], "$deleteFromPrimitiveList/finalizers": ["one"]}
    target = {"finalizers": ["one", "two"]}
    assert strategic_merge_patch(target, patch, OBJECT_META) == {
        "finalizers": ["three", "two"]
    }


@rows("model", "target", "patch", "result")
def test_the_schema_says_how_a_strategic_patch_merges_a_field(
    model: str, target: JSON, patch: JSON, result: JSON
) -> None:
    assert strategic_merge_patch(target, patch, model) == result


def test_an_order_puts_items_where_it_says() -> None:
    target = {"containers": [{"name": n} for n in "abcd"]}
    patch = {
        "$setElementOrder/containers": [{"name": "d"}, {"name": "a"}],
        "containers": [{"name": "a", "image": "x"}],
    }
    merged = strategic_merge_patch(target, patch, SPEC)
    names = [each["name"] for each in merged["containers"]]
    assert sorted(names) == ["a", "b", "c", "d"]
    assert names.index("d") < names.index("a")


def test_of_two_ports_with_one_number_neither_is_lost() -> None:
    """53/TCP and 53/UDP are two, though their merge key is the same."""
    ports = [{"containerPort": 53, "protocol": each} for each in ("UDP", "TCP")]
    target = {"containers": [{"name": "c", "ports": [{"containerPort": 80}, *ports]}]}
    removed = {"containerPort": 80, "$patch": "delete"}
    patch = {"containers": [{"name": "c", "ports": [removed]}]}
    merged = strategic_merge_patch(target, patch, SPEC)
    assert merged["containers"][0]["ports"] == ports


@pytest.mark.parametrize(
    "patch",
    [
        [],
        {"containers": ["x"]},
        {"containers": [{"image": "x"}]},
        {"$patch": "sideways"},
        {"$retainKeys": 5, "a": 1},
        {"containers": [], "$setElementOrder/containers": ["x"]},
    ],
)
def test_a_strategic_patch_that_does_not_fit_is_refused(patch: Any) -> None:
    with pytest.raises(PatchError):
        strategic_merge_patch({"containers": [{"name": "a"}]}, patch, SPEC)
