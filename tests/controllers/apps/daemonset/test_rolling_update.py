"""Rolling updates without and with maxSurge."""

import pytest

from controller_manager.api.apps.v1 import DaemonSet
from controller_manager.api.core.v1 import Pod
from controller_manager.api.scalars import IntOrStringError
from controller_manager.controllers.apps.daemonset.nodes import Fit
from controller_manager.controllers.apps.daemonset.rolling_update import (
    Bounds,
    bounds_of,
    plan_update,
)
from tests.controllers.apps.daemonset.builders import (
    NEW,
    NOW,
    daemon_set,
    placed,
    placed_of,
    pod,
    summary,
    with_generation,
)


def old(name: str, on: str, *, ready: bool = True, **fields: object) -> Pod:
    return pod(name, on, hash="old", ready=ready, **fields)


OLD = (old("a", "n1"), old("b", "n2"), old("c", "n3"))
BROKEN = (old("a", "n1", ready=False), old("b", "n2", ready=False), OLD[2])
YOUNG = pod("a", "n1", since=50)
"""A new pod that became ready ten seconds ago."""

OTHERS = (pod("b", "n2"), pod("c", "n3"))
MOVED = {"n1": Fit.KEEP, "n4": Fit.RUN}


@pytest.mark.parametrize(
    ("pods", "of", "fits", "deleted"),
    [
        # One old pod at a time is deleted, the next one when the new pod of the first
        # node is available.
        (OLD, {}, {}, ["a"]),
        ((old("a", "n1", leaving=True), *OLD[1:]), {}, {}, []),
        (OLD[1:], {}, {}, []),
        ((pod("a", "n1", ready=False), *OLD[1:]), {}, {}, []),
        ((pod("a", "n1"), *OLD[1:]), {}, {}, ["b"]),
        ((pod("a", "n1"), *OTHERS), {}, {}, []),
        ((YOUNG, *OLD[1:]), {"minReadySeconds": 10}, {}, ["b"]),
        ((YOUNG, *OLD[1:]), {"minReadySeconds": 11}, {}, []),
        # Unavailable old pods are deleted beyond the bound. They use it up.
        (BROKEN, {}, {}, ["a", "b"]),
        (BROKEN, {"unavailable": 3}, {}, ["a", "b", "c"]),
        ((old("a", "n1", phase="Failed", ready=False), *OLD[1:]), {}, {}, ["a"]),
        # Percentages are of the desired pods, rounded up. One pod may be deleted if
        # both bounds are zero.
        (OLD, {"unavailable": 2}, {}, ["a", "b"]),
        (OLD, {"unavailable": "50%"}, {}, ["a", "b"]),
        (OLD, {"unavailable": "1%"}, {}, ["a"]),
        (OLD, {"unavailable": "100%"}, {}, ["a", "b", "c"]),
        (OLD, {"unavailable": 5}, {}, ["a", "b", "c"]),
        (OLD, {"unavailable": 0}, {}, ["a"]),
        # As upstream, one on a node that only keeps it counts and has no successor.
        ((pod("a", "n1"), *OTHERS, old("d", "n4")), {}, {"n4": Fit.KEEP}, ["d"]),
        # A node with surplus pods, which are deleted first, counts as unavailable.
        ((*OLD, old("a2", "n1")), {}, {}, []),
        # With OnDelete the user deletes the pods.
        (OLD, {"kind": "OnDelete"}, {}, []),
    ],
)
def test_old_pods_are_deleted_within_the_bounds(
    pods: tuple[Pod, ...],
    of: dict[str, object],
    fits: dict[str, Fit],
    deleted: list[str],
) -> None:
    seen = placed_of(pods, fits, daemon_set(**of))  # type: ignore[arg-type]
    assert summary(plan_update(seen, (), NOW)) == ([], deleted)


def test_bounds_count_only_nodes_that_must_have_a_pod() -> None:
    half, none = daemon_set(unavailable="50%"), daemon_set(unavailable=0)
    seen = placed(of=half, n4=Fit.KEEP, n5=Fit.NONE, n6=Fit.RUN)
    assert bounds_of(seen) == Bounds(unavailable=2, surge=0, desired=4)
    seen = placed(of=daemon_set(surge="50%", unavailable=0))
    assert bounds_of(seen) == Bounds(0, 2, 3)
    nowhere = dict.fromkeys(("n1", "n2", "n3"), Fit.NONE)
    assert bounds_of(placed_of((), nowhere, none)) == Bounds(0, 0, 0)


def test_a_bound_that_is_no_number_is_named() -> None:
    """An API server refuses it."""
    with pytest.raises(IntOrStringError, match="'many'"):
        plan_update(placed(*OLD, of=daemon_set(unavailable="many")), (), NOW)


@pytest.mark.parametrize(
    ("hash_label", "generation", "annotation", "is_updated"),
    [
        (NEW, "1", "2", True),
        ("old", "2", "2", True),
        ("old", "1", "2", False),
        ("old", "", None, False),
        ("old", "x", "x", False),
        ("", None, "2", False),
    ],
)
def test_a_pod_is_of_the_current_template_by_its_hash_or_by_its_generation(
    hash_label: str, generation: str | None, annotation: str | None, *, is_updated: bool
) -> None:
    """A deleted revision is created again, maybe with another hash."""
    subject = pod("p1", "n1", hash=hash_label, generation=generation)
    seen = placed(subject, of=with_generation(annotation), n2=Fit.NONE, n3=Fit.NONE)
    assert seen.is_updated(subject) is is_updated
    assert summary(plan_update(seen, (), NOW)) == ([], [] if is_updated else ["p1"])


SURGING = daemon_set(surge=1, unavailable=0)


@pytest.mark.parametrize(
    ("pods", "of", "fits", "created", "deleted"),
    [
        # A new pod comes beside an old one, on one node at a time; the old pod is
        # deleted when the new one is available.
        (OLD, SURGING, {}, ["n1"], []),
        ((*OLD, pod("a2", "n1", ready=False)), SURGING, {}, [], []),
        ((*OLD, pod("a2", "n1")), SURGING, {}, ["n2"], ["a"]),
        (OLD, daemon_set(surge="60%", unavailable=0), {}, ["n1", "n2"], []),
        # The successor of one that is not ready is no surplus pod.
        (BROKEN, SURGING, {}, ["n1", "n2", "n3"], []),
        # One on an unsuitable node stays until others are available: the user expects
        # that as many pods are available as before.
        ((OLD[0], *OTHERS), SURGING, MOVED, [], []),
        ((OLD[0], *OTHERS, pod("d", "n4")), SURGING, MOVED, [], ["a"]),
        ((BROKEN[0], *OTHERS), SURGING, MOVED, [], ["a"]),
        # Surplus pods, which are deleted first, count against the surge.
        ((*OLD, old("a2", "n1")), SURGING, {}, [], []),
    ],
)
def test_with_surge_new_pods_come_first(
    pods: tuple[Pod, ...],
    of: DaemonSet,
    fits: dict[str, Fit],
    created: list[str],
    deleted: list[str],
) -> None:
    plan = plan_update(placed_of(pods, fits, of), (), NOW)
    assert summary(plan) == (created, deleted)


@pytest.mark.parametrize(
    ("surge", "pods", "fit", "expected"),
    [
        (1, OLD, Fit.RUN, ([], [])),
        (2, OLD, Fit.RUN, (["n2"], [])),
        (1, BROKEN, Fit.RUN, (["n2"], [])),
        (1, BROKEN, Fit.KEEP, (["n2", "n3"], ["a"])),
    ],
)
def test_with_surge_a_node_gets_no_new_pod_while_its_failed_one_is_missing(
    surge: int, pods: tuple[Pod, ...], fit: Fit, expected: tuple[list[str], list[str]]
) -> None:
    """It uses up the surge, as the failed pod would."""
    seen = placed_of(pods, {"n1": fit}, daemon_set(surge=surge, unavailable=0))
    assert summary(plan_update(seen, ["n1"], NOW)) == expected
