"""Rolling updates without and with maxSurge."""

import pytest
from msgspec.structs import replace

from controller_manager.api.apps.v1 import DaemonSet
from controller_manager.api.core.v1 import Pod
from controller_manager.api.scalars import IntOrStringError
from controller_manager.controllers.apps.daemonset.nodes import Fit
from controller_manager.controllers.apps.daemonset.rolling_update import (
    Bounds,
    bounds_of,
    plan_update,
)
from tests.controllers.apps.daemonset.cases import (
    NEW,
    NOW,
    daemon_set,
    placed,
    placed_of,
    pod,
    summary,
)


def old(name: str, on: str, *, ready: bool = True, **fields: object) -> Pod:
    return pod(name, on, hash="old", ready=ready, **fields)


OLD = (old("a", "n1"), old("b", "n2"), old("c", "n3"))


def planned(
    *pods: Pod, of: DaemonSet | None = None, **fits: Fit
) -> tuple[list[str], list[str]]:
    return summary(plan_update(placed_of(pods, fits, of), (), NOW))


def test_one_old_pod_is_deleted_at_a_time() -> None:
    """The next one when the new pod of the first node is available."""
    assert planned(*OLD) == ([], ["a"])
    assert planned(old("a", "n1", leaving=True), *OLD[1:]) == ([], [])
    assert planned(*OLD[1:]) == ([], [])
    assert planned(pod("a", "n1", ready=False), *OLD[1:]) == ([], [])
    assert planned(pod("a", "n1"), *OLD[1:]) == ([], ["b"])
    assert planned(pod("a", "n1"), pod("b", "n2"), pod("c", "n3")) == ([], [])


def test_a_pod_that_was_not_ready_long_enough_is_not_available() -> None:
    """It became ready ten seconds ago."""
    young = pod("a", "n1", since=50)
    for seconds, expected in ((0, ["b"]), (10, ["b"]), (11, [])):
        of = daemon_set(minReadySeconds=seconds)
        assert planned(young, *OLD[1:], of=of) == ([], expected)


def test_unavailable_old_pods_are_deleted_beyond_the_bound() -> None:
    """They use up the bound, so no available pod is deleted."""
    pods = (old("a", "n1", ready=False), old("b", "n2", ready=False), OLD[2])
    assert planned(*pods) == ([], ["a", "b"])
    assert planned(*pods, of=daemon_set(unavailable=3)) == ([], ["a", "b", "c"])
    assert planned(old("a", "n1", phase="Failed", ready=False), *OLD[1:]) == (
        [],
        ["a"],
    )


@pytest.mark.parametrize(
    ("unavailable", "expected"),
    [(1, 1), (2, 2), ("50%", 2), ("1%", 1), ("100%", 3), (5, 3), (0, 1)],
)
def test_percentages_are_of_the_desired_pods_rounded_up(
    unavailable: int | str, expected: int
) -> None:
    """If both bounds are zero, one pod may be deleted."""
    _, deleted = planned(*OLD, of=daemon_set(unavailable=unavailable))
    assert len(deleted) == expected


def test_bounds_count_only_nodes_that_must_have_a_pod() -> None:
    """A node with a taint or without matching labels does not count."""
    seen = placed(
        of=daemon_set(unavailable="50%"), n4=Fit.KEEP, n5=Fit.NONE, n6=Fit.RUN
    )
    assert bounds_of(seen) == Bounds(unavailable=2, surge=0, desired=4)
    assert bounds_of(placed(of=daemon_set(surge="50%", unavailable=0))) == Bounds(
        0, 2, 3
    )
    nowhere = {"n1": Fit.NONE, "n2": Fit.NONE, "n3": Fit.NONE}
    assert bounds_of(placed_of((), nowhere, daemon_set(unavailable=0))) == Bounds(
        0, 0, 0
    )


def test_a_bound_that_is_no_number_is_named() -> None:
    """An API server refuses it."""
    with pytest.raises(IntOrStringError, match="'many'"):
        plan_update(placed(*OLD, of=daemon_set(unavailable="many")), (), NOW)


def test_an_old_pod_is_deleted_from_a_node_that_only_keeps_it() -> None:
    """As upstream: it counts against the bound, and gets no successor."""
    there = pod("a", "n1"), pod("b", "n2"), pod("c", "n3"), old("d", "n4")
    assert planned(*there, n4=Fit.KEEP) == ([], ["d"])


def test_a_node_with_surplus_pods_counts_as_unavailable() -> None:
    """The surplus pods are deleted first."""
    assert planned(*OLD, old("a2", "n1"), of=daemon_set(unavailable=1)) == ([], [])


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
    annotations = {"deprecated.daemonset.template.generation": annotation}
    agent = daemon_set()
    agent = replace(
        agent,
        metadata=replace(
            agent.metadata,
            annotations={k: v for k, v in annotations.items() if v is not None},
        ),
    )
    subject = pod("p1", "n1", hash=hash_label, generation=generation)
    seen = placed(subject, of=agent, n2=Fit.NONE, n3=Fit.NONE)
    assert seen.is_updated(subject) is is_updated
    plan = plan_update(seen, (), NOW)
    assert summary(plan) == ([], [] if is_updated else ["p1"])


def test_with_on_delete_nothing_is_planned() -> None:
    """The user deletes the pods."""
    assert planned(*OLD, of=daemon_set(kind="OnDelete")) == ([], [])


# With maxSurge.

SURGING = daemon_set(surge=1, unavailable=0)


def test_a_new_pod_comes_beside_an_old_one() -> None:
    """On one node at a time; the old pod is deleted when the new one is available."""
    assert planned(*OLD, of=SURGING) == (["n1"], [])
    assert planned(*OLD, pod("a2", "n1", ready=False), of=SURGING) == ([], [])
    assert planned(*OLD, pod("a2", "n1"), of=SURGING) == (["n2"], ["a"])
    assert planned(*OLD, of=daemon_set(surge="60%", unavailable=0)) == (
        ["n1", "n2"],
        [],
    )


def test_an_old_pod_that_is_not_available_is_replaced_beyond_the_surge() -> None:
    """It is not ready, so its successor is no surplus pod."""
    broken = (old("a", "n1", ready=False), old("b", "n2", ready=False), OLD[2])
    assert planned(*broken, of=SURGING) == (["n1", "n2", "n3"], [])


def test_a_pod_on_an_unsuitable_node_stays_until_others_are_available() -> None:
    """With maxSurge the user expects that as many pods are available as before."""
    moved = {"n1": Fit.KEEP, "n4": Fit.RUN}
    others = (pod("b", "n2"), pod("c", "n3"))
    alone = (old("a", "n1"), *others)
    assert planned(*alone, of=SURGING, **moved) == ([], [])
    both = (*alone, pod("d", "n4"))
    assert planned(*both, of=SURGING, **moved) == ([], ["a"])
    broken = (old("a", "n1", ready=False), *others)
    assert planned(*broken, of=SURGING, **moved) == ([], ["a"])


def test_with_surge_surplus_pods_count_against_the_surge() -> None:
    """The surplus pods are deleted first."""
    assert planned(*OLD, old("a2", "n1"), of=SURGING) == ([], [])


@pytest.mark.parametrize(
    ("surge", "broken", "fit", "expected"),
    [
        (1, "", Fit.RUN, ([], [])),
        (2, "", Fit.RUN, (["n2"], [])),
        (1, "ab", Fit.RUN, (["n2"], [])),
        (1, "ab", Fit.KEEP, (["n2", "n3"], ["a"])),
    ],
)
def test_with_surge_a_node_gets_no_new_pod_while_its_failed_one_is_missing(
    surge: int, broken: str, fit: Fit, expected: tuple[list[str], list[str]]
) -> None:
    """It uses up the surge, as the failed pod would."""
    pods = [old(name, f"n{number}", ready=name not in broken) for number, name in _ON]
    seen = placed_of(pods, {"n1": fit}, daemon_set(surge=surge, unavailable=0))
    assert summary(plan_update(seen, ["n1"], NOW)) == expected


_ON = tuple(enumerate("abc", 1))
"""The names of old pods, each with the number of its node."""
