"""Rolling updates without and with maxSurge."""

from collections.abc import Iterator, Mapping
from datetime import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from controller_manager.api.apps.v1 import DaemonSet
from controller_manager.api.core.v1 import Pod
from controller_manager.api.scalars import IntOrStringError, scaled_value
from controller_manager.controllers.apps.daemonset.backoff import NO_DELAYS
from controller_manager.controllers.apps.daemonset.nodes import Fit, target_of
from controller_manager.controllers.apps.daemonset.pods import (
    DaemonPods,
    Plan,
    manage_pods,
)
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


_NODES = tuple(f"n{number}" for number in range(1, 7))
_STEPS = 60
"""More syncs than any update of these nodes takes."""

bounds = st.sampled_from(
    [(0, 1), (0, 2), (0, "50%"), (1, 0), ("50%", 0), (2, 1), (0, 0)]
)
fits = st.fixed_dictionaries(
    dict.fromkeys(_NODES, st.sampled_from([Fit.RUN, Fit.RUN, Fit.KEEP, Fit.NONE]))
)


@st.composite
def old_pods(draw: st.DrawFn) -> list[Pod]:
    """Return pods of one or two revisions, in any state, up to two on a node."""
    return [
        pod(
            f"{node}-{number}",
            node,
            hash=draw(st.sampled_from(["old", "older", NEW])),
            ready=draw(st.booleans()),
            phase=draw(st.sampled_from(["Running", "Running", "Failed"])),
            bound=draw(st.booleans()) and node != "gone",
            leaving=draw(st.booleans()),
            created=draw(st.integers(0, 3)),
        )
        for node in (*_NODES, "gone")
        for number in range(draw(st.integers(0, 2)))
    ]


class Model:
    """Nodes and pods; created pods become ready, and deleted pods are gone later."""

    def __init__(self, of: DaemonSet, fits: Mapping[str, Fit], pods: list[Pod]) -> None:
        self.of, self.fits, self.pods = of, fits, pods
        self._made = 0

    def placed(self) -> DaemonPods:
        return placed_of(self.pods, self.fits, self.of)

    def carry_out(self, plan: Plan, *, slowly: bool) -> None:
        """Carry out a plan; with `slowly`, pods become ready or gone later."""
        for node in plan.nodes:
            self._made += 1
            self.pods.append(
                pod(
                    f"made-{self._made}",
                    node,
                    ready=not slowly,
                    created=min(4 + self._made, 59),
                )
            )
        gone = {each.pod.metadata.name: each.node for each in plan.deletions}
        self.pods = [
            pod(each.metadata.name, target_of(each), leaving=True, hash=_hash(each))
            if slowly and each.metadata.name in gone
            else each
            for each in self.pods
            if slowly or each.metadata.name not in gone
        ]

    def settle(self) -> None:
        """Remove pods that are being deleted, and make others ready."""
        self.pods = [
            pod(
                each.metadata.name,
                target_of(each),
                hash=_hash(each),
                created=int((each.metadata.creation_timestamp or "")[17:19]),
            )
            for each in self.pods
            if not each.metadata.deletion_timestamp and each.status.phase != "Failed"
        ]


def _hash(each: Pod) -> str:
    return (each.metadata.labels or {})["controller-revision-hash"]


def plan_problems(placed: DaemonPods, plan: Plan, now: datetime) -> Iterator[str]:
    """Yield how a plan of an update breaks the bounds, by the manager's caches."""
    strategy = placed.daemon_set.spec.update_strategy
    rolling = strategy.rolling_update
    if rolling is None:
        if not plan.is_empty:
            yield f"{placed.daemon_set.metadata.name}: OnDelete, but there is a plan"
        return
    wanted = [node for node, fit in placed.fits.items() if fit is Fit.RUN]
    surge, unavailable = (
        scaled_value(each or 0, len(wanted), round_up=True)
        for each in (rolling.max_surge, rolling.max_unavailable)
    )
    most = unavailable or (0 if surge else 1)
    gone = {each.pod.metadata.uid for each in plan.deletions}
    had, left = (
        sum(
            any(
                placed.is_available(pod, now) and pod.metadata.uid not in without
                for pod in placed.staying(node)
            )
            for node in wanted
        )
        for without in (set[str](), gone)
    )
    name = placed.daemon_set.metadata.name
    if left < min(had, len(wanted) - (0 if surge else most)):
        yield f"{name}: {left} of {had} nodes keep an available pod, {most} may not"
    serving = sum(
        any(placed.is_available(pod, now) for pod in placed.staying(node))
        for node in plan.nodes
    )
    if serving > surge:
        yield f"{name}: {serving} second pods beside available ones, surge is {surge}"


def _sync(model: Model, *, slowly: bool) -> bool:
    """Sync once; tell whether pods were created or deleted."""
    managed = manage_pods(model.placed(), NO_DELAYS, NOW)
    model.carry_out(managed, slowly=slowly)
    seen = model.placed()
    updated = plan_update(seen, (), NOW)
    assert list(plan_problems(seen, updated, NOW)) == []
    model.carry_out(updated, slowly=slowly)
    return not (managed.is_empty and updated.is_empty)


@settings(max_examples=60, deadline=None)
@given(bounds=bounds, fits=fits, pods=old_pods(), slow=st.lists(st.booleans()))
def test_every_update_ends_with_one_new_pod_on_each_node(
    bounds: tuple[int | str, int | str],
    fits: dict[str, Fit],
    pods: list[Pod],
    slow: list[bool],
) -> None:
    """From any pods, and even if pods start and end slowly."""
    surge, unavailable = bounds
    model = Model(daemon_set(surge=surge, unavailable=unavailable), fits, pods)
    for number in range(_STEPS):
        if not _sync(model, slowly=number < len(slow) and slow[number]):
            before = len(model.pods)
            model.settle()
            if len(model.pods) == before and not _sync(model, slowly=False):
                break
    else:
        raise AssertionError(model.pods)
    wanted = {node for node, fit in fits.items() if fit is Fit.RUN}
    seen = model.placed()
    assert {node for node in wanted if len(seen.staying(node)) == 1} == wanted
    assert all(seen.is_updated(seen.staying(node)[0]) for node in wanted)
    nowhere = {node for node, fit in fits.items() if fit is Fit.NONE}
    assert not any(seen.staying(node) for node in nowhere)


@settings(max_examples=60, deadline=None)
@given(bounds=bounds, fits=fits, pods=old_pods())
def test_no_pod_is_deleted_twice_and_no_node_gets_a_third_pod(
    bounds: tuple[int | str, int | str], fits: dict[str, Fit], pods: list[Pod]
) -> None:
    """In one sync, and without maxSurge no second one."""
    surge, unavailable = bounds
    of = daemon_set(surge=surge, unavailable=unavailable)
    seen = placed_of(pods, fits, of)
    plan = manage_pods(seen, NO_DELAYS, NOW)
    names = [each.pod.metadata.name for each in plan.deletions]
    assert len(names) == len(set(names))
    assert len(plan.nodes) == len(set(plan.nodes))
    most = 1 if surge == 0 else 2
    gone = {each.pod.metadata.uid for each in plan.deletions}
    for node in plan.nodes:
        staying = [each for each in seen.staying(node) if each.metadata.uid not in gone]
        assert len(staying) < most
