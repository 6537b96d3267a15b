"""Sets of fields behave as sets of paths do."""

import random
from collections.abc import Callable

import pytest

from controller_manager.devcluster.apiserver.field_set import (
    FieldSet,
    Path,
    check_fields,
    difference,
    intersection,
    outside_of,
    paths_of,
    shared,
    union,
    with_named_fields,
)
from controller_manager.devcluster.apiserver.field_type import type_of_model

NAMES = ("f:a", "f:b", 'k:{"name":"c"}', 'v:"d"')


def some_paths(rng: random.Random) -> set[Path]:
    return {
        tuple(rng.choices(NAMES, k=rng.randint(1, 3))) for _ in range(rng.randint(0, 6))
    }


def made_of(paths: set[Path]) -> FieldSet:
    """Return the set of fields with these paths, in its simplest form."""
    result: FieldSet = {}
    for path in sorted(paths):
        node = result
        for step in path[:-1]:
            node = node.setdefault(step, {})
        node.setdefault(path[-1], {})
    return _marked(result, paths, ())


def _marked(node: FieldSet, paths: set[Path], path: Path) -> FieldSet:
    inner = {step: _marked(each, paths, (*path, step)) for step, each in node.items()}
    return {".": {}, **inner} if inner and path in paths else inner


def inside(path: Path, paths: set[Path]) -> bool:
    return any(path[: len(each)] == each for each in paths)


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (union, lambda one, other: one | other),
        (difference, lambda one, other: one - other),
        (intersection, lambda one, other: one & other),
        (
            outside_of,
            lambda one, other: {each for each in one if not inside(each, other)},
        ),
    ],
)
def test_operations_are_those_of_sets_of_paths(
    operation: Callable[[FieldSet, FieldSet], FieldSet],
    expected: Callable[[set[Path], set[Path]], set[Path]],
) -> None:
    """For two thousand pairs; the arguments do not change."""
    rng = random.Random(18)
    for _ in range(2000):
        one, other = some_paths(rng), some_paths(rng)
        given = made_of(one), made_of(other)
        result = operation(*given)
        assert given == (made_of(one), made_of(other))
        assert result == made_of(expected(one, other)), (one, other)
        found = list(paths_of(result))
        assert set(found) == expected(one, other)
        assert len(found) == len(set(found))


def test_equal_sets_are_stored_once_and_in_order() -> None:
    one = shared({"f:b": {"f:d": {}, ".": {}}, "f:a": {}})
    other = shared({"f:a": {}, "f:b": {".": {}, "f:d": {}}})
    assert one is other
    assert list(one["f:b"]) == [".", "f:d"]


def test_declared_fields_with_members_become_members() -> None:
    item = 'k:{"name":"c"}'
    fields = {
        "f:metadata": {"f:labels": {"f:a": {}}},
        "f:spec": {"f:containers": {item: {"f:image": {}}}},
    }
    assert with_named_fields(fields, type_of_model("io.k8s.api.core.v1.Pod")) == {
        "f:metadata": {".": {}, "f:labels": {".": {}, "f:a": {}}},
        "f:spec": {".": {}, "f:containers": {".": {}, item: {"f:image": {}}}},
    }


@pytest.mark.parametrize(
    "fields", [[], "f:a", {"a": {}}, {"x:a": {}}, {"f:a": 1}, {"f:a": {"b": {}}}]
)
def test_a_wrong_set_of_fields_is_refused(fields: object) -> None:
    with pytest.raises(ValueError, match=r"fields are a map|unknown step"):
        check_fields(fields)
