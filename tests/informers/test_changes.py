"""The parts by which two versions of a pod differ, compared with plain JSON."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller_manager.api.core.v1 import Pod
from controller_manager.informers.changes import Comparison, DependsOn
from tests.informers.parts import PARTS, parts_of, pods

_PATHS = tuple(PARTS)


def _comparison(*paths: str) -> tuple[Comparison, dict[str, int]]:
    comparison = Comparison(Pod)
    return comparison, {path: comparison.bits_of(DependsOn(path)) for path in paths}


@given(old=pods(), new=pods(), paths=st.sets(st.sampled_from(_PATHS), min_size=1))
def test_exactly_the_differences_are_found(old: Pod, new: Pod, paths: set[str]) -> None:
    comparison, bits = _comparison(*sorted(paths))
    changed = comparison.changed(old, new)
    found = {path for path, bit in bits.items() if changed & bit}
    before, after = parts_of(old), parts_of(new)
    assert found == {path for path in paths if before[path] != after[path]}


def test_a_part_that_is_declared_later_is_compared_from_then_on() -> None:
    """A controller may add its handler while the informer runs."""
    comparison, bits = _comparison("status.phase")
    old, new = (
        msgspec.convert({"spec": {"nodeName": name}}, Pod) for name in ("", "node")
    )
    assert comparison.changed(old, new) == 0
    bits["spec.nodeName"] = comparison.bits_of(DependsOn("spec.nodeName"))
    assert comparison.changed(old, new) == bits["spec.nodeName"]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("spec.nodename", "PodSpec has no 'nodename'"),
        ("status.conditions.status", "entries of a list are compared as a whole"),
        ("spec..nodeName", "a path is like"),
    ],
)
def test_a_path_that_cannot_be_compared_is_refused(path: str, text: str) -> None:
    """At once: a handler that is never called would be noticed late."""
    with pytest.raises(ValueError, match=text):
        Comparison(Pod).bits_of(DependsOn(path))


def test_a_comparison_of_nothing_finds_nothing() -> None:
    """A resource may have only handlers that get every change."""
    old, new = (msgspec.convert({"spec": {"nodeName": name}}, Pod) for name in "ab")
    assert Comparison(Pod).changed(old, new) == 0


def test_the_entries_of_a_list_are_compared_by_their_type() -> None:
    comparison, bits = _comparison("status.conditions[Ready]", "status.conditions")
    ready, other = {"type": "Ready", "status": "True"}, {"type": "Other"}
    not_ready = {"type": "Ready", "status": "False"}
    one, moved, two, lost = (
        _with_conditions(*each)
        for each in ((ready, other), (other, ready), (ready, not_ready), (other,))
    )
    entry, whole = bits.values()
    assert comparison.changed(one, moved) == whole
    assert (
        comparison.changed(one, two) == comparison.changed(one, lost) == entry | whole
    )


def _with_conditions(*conditions: dict[str, Any]) -> Pod:
    return msgspec.convert({"status": {"conditions": conditions}}, Pod)
