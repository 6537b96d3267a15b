"""Sizes of replica sets in a rollout, and the condition of its progress."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from controller_manager.api.apps.v1 import (
    Deployment,
    DeploymentStatus,
    ReplicaSet,
    desired_replicas,
)
from controller_manager.api.meta import find_condition
from controller_manager.controllers.apps.deployment.rollout import Rollout
from controller_manager.controllers.apps.deployment.scaling import (
    fenceposts,
    is_scaling_event,
    lasting_available,
    max_surge,
    max_total,
    max_unavailable,
    old_pods_running,
    plan_rolling,
    plan_scale_down,
    plan_scale_up,
    plan_scaling,
)
from controller_manager.controllers.apps.deployment.status import (
    PROGRESSING,
    condition,
    has_timed_out,
    next_progress_check,
    record_pause,
    with_condition,
)
from tests.controllers.apps.deployment.model import RECREATE
from tests.controllers.builders import deployment, pod, replica_set

sizes = st.integers(0, 30)
bounds = st.one_of(st.integers(0, 12), st.integers(0, 100).map("{}%".format))


@st.composite
def rollouts(draw: st.DrawFn, *, within_bounds: bool = False) -> Rollout:
    """Draw a rolling deployment in any possible state.

    `within_bounds` leaves out those with more pods than there may be.
    """
    subject = deployment(draw(sizes), draw(bounds), draw(bounds))
    wanted, most = desired_replicas(subject), max_total(subject)
    room = most
    sets = []
    for name in ("o", "oo", "ooo", "newest")[draw(st.integers(0, 3)) :]:
        size = draw(st.integers(0, room) if within_bounds else sizes)
        room -= size
        available = draw(sizes)
        sets.append(replica_set(name, size, available, desired=wanted, maximum=most))
    return Rollout(subject, sets[-1], tuple(sets[:-1]))


def total(rollout: Rollout) -> int:
    return sum(map(desired_replicas, rollout.all))


def after(rollout: Rollout) -> Rollout:
    resized = {each.replica_set.metadata.name: each for each in plan_rolling(rollout)}
    changed: list[ReplicaSet] = []
    for each in (*rollout.old, rollout.new):
        assert each is not None
        resize = resized.get(each.metadata.name)
        size = each.spec.replicas if resize is None else resize.replicas
        changed.append(replace(each, spec=replace(each.spec, replicas=size)))
    return Rollout(rollout.deployment, changed[-1], tuple(changed[:-1]))


@given(rollout=rollouts())
def test_a_step_stays_within_the_bounds(rollout: Rollout) -> None:
    """If there are more pods already, it wants no additional pod.

    The remaining available pods stay above the bound. No size is below zero, and no
    old replica set grows.
    """
    subject, following = rollout.deployment, after(rollout)
    assert total(following) <= max(max_total(subject), total(rollout))
    assert all(desired_replicas(each) >= 0 for each in following.all)
    for before, later in zip(rollout.old, following.old, strict=True):
        assert desired_replicas(later) <= desired_replicas(before)
    # Shrinking a new replica set that is too large is not part of the rollout.
    assert rollout.new is not None
    assume(desired_replicas(rollout.new) <= desired_replicas(subject))
    had, left = (sum(map(lasting_available, x.all)) for x in (rollout, following))
    assert left >= min(desired_replicas(subject) - max_unavailable(subject), had)


@given(rollout=rollouts())
def test_a_rollout_ends_when_pods_become_available(rollout: Rollout) -> None:
    """From any state; then the sizes do not change any more."""
    for _ in range(200):
        following = after(rollout)
        assert following.new is not None
        new, old = _healed(following.new), tuple(map(_healed, following.old))
        healed = Rollout(following.deployment, new, old)
        if healed == rollout:
            break
        rollout = healed
    assert rollout.new is not None
    assert desired_replicas(rollout.new) == desired_replicas(rollout.deployment)
    assert [desired_replicas(each) for each in rollout.old] == [0] * len(rollout.old)
    assert plan_rolling(rollout) == ()


def _healed(subject: ReplicaSet) -> ReplicaSet:
    size = desired_replicas(subject)
    status = replace(subject.status, replicas=size, available_replicas=size)
    return replace(subject, status=status)


@pytest.mark.parametrize(
    ("subject", "old", "new", "expected"),
    [
        # Unhealthy old pods go first: deleting them costs no availability.
        (deployment(10, 3, 2), [(4, 4), (4, 1)], (5, 5), {"oo": 1, "o": 2}),
        # Pods that will be deleted do not count as available: upstream takes five
        # more here (kubernetes#22719).
        (deployment(8, 3, 2), [(7, 11)], (4, 0), {"o": 6}),
    ],
)
def test_a_step_takes_old_pods(
    subject: Deployment,
    old: list[tuple[int, int]],
    new: tuple[int, int],
    expected: dict[str, int],
) -> None:
    sets = tuple(
        replica_set("o" * number, *each, current=max(each))
        for number, each in enumerate(old, 1)
    )
    plan = plan_rolling(Rollout(subject, replica_set("newest", *new), sets))
    assert {each.replica_set.metadata.name: each.replicas for each in plan} == expected


@pytest.mark.parametrize(
    ("surge", "unavailable", "replicas", "expected"),
    [
        ("25%", "25%", 10, (3, 2)),
        ("25%", "25%", 1, (1, 0)),
        ("25%", "25%", 4, (1, 1)),
        (0, "25%", 1, (0, 1)),
        (0, 0, 5, (0, 1)),
        ("0%", "10%", 5, (0, 1)),
        (2, 3, 1, (2, 3)),
        ("nonsense", 1, 5, (0, 1)),
    ],
)
def test_bounds_resolve_to_pods(
    surge: int | str, unavailable: int | str, replicas: int, expected: tuple[int, int]
) -> None:
    """Surge rounds up, unavailability down, and both are never 0."""
    assert fenceposts(surge, unavailable, replicas) == expected


def test_the_annotation_shows_a_changed_size() -> None:
    """Only replica sets with pods and the annotation count.

    Recreating continues with pods of several templates and a new size: upstream then
    scales nothing, and never continues the rollout.
    """
    subject, again = deployment(5), deployment(7, strategy=RECREATE)
    changed, unmarked = replica_set("o", 3, desired=3), replica_set("oo", 3)
    empty, same = replica_set("ooo", 0, desired=3), replica_set("oooo", 3, desired=5)
    first, second = replica_set("o", 1, desired=1), replica_set("oo", 1, desired=1)
    assert is_scaling_event(Rollout(subject, changed, (unmarked,)))
    assert not is_scaling_event(Rollout(subject, same, (unmarked, empty)))
    assert is_scaling_event(Rollout(again, None, (first,)))
    assert not is_scaling_event(Rollout(again, None, (first, second)))


@pytest.mark.parametrize(
    ("subject", "sets", "expected"),
    [
        # The only replica set with pods takes the whole change, also an old one.
        (deployment(5), {"o": (3, 3, 3), "newest": (0, 0, 3)}, {"o": 5}),
        # Without any pods the new one is scaled up, or else the youngest.
        (
            deployment(2),
            {"o": (0, 0), "oo": (0, 0), "newest": (0, 0, 0)},
            {"newest": 2},
        ),
        (deployment(2), {"o": (0, 0), "oo": (0, 0)}, {"oo": 2}),
        # Once the new one is complete, old ones are scaled to zero; for example, when
        # an old one is adopted later.
        (deployment(5), {"o": (3, 3), "newest": (5, 5, 5)}, {"o": 0}),
        # In proportion, with the remainder to the largest: 10 with surge 3, split 8
        # and 5, scaled to 15 and back to 8, as recorded.
        (
            deployment(15, 3, 2),
            {"o": (8, 8, 10, 13), "newest": (5, 0, 10, 13)},
            {"o": 11, "newest": 7},
        ),
        (
            deployment(8, 3, 2),
            {"o": (11, 11, 15, 18), "newest": (7, 0, 15, 18)},
            {"o": 7, "newest": 4},
        ),
        # Scaling to zero takes all pods of all.
        (
            deployment(0),
            {"o": (3, 3, 4, 5), "newest": (2, 0, 4, 5)},
            {"o": 0, "newest": 0},
        ),
    ],
)
def test_a_new_size_is_distributed(
    subject: Deployment, sets: dict[str, tuple[int, ...]], expected: dict[str, int]
) -> None:
    """Each replica set has its size, available pods, and the sizes noted on it."""
    made: dict[str, ReplicaSet] = {}
    for name, (size, available, *noted) in sets.items():
        known: dict[str, Any] = dict(zip(NOTED, noted, strict=False))
        made[name] = replica_set(name, size, available, **known)
    new = made.pop("newest", None)
    plan = plan_scaling(Rollout(subject, new, tuple(made.values())))
    assert {each.replica_set.metadata.name: each.replicas for each in plan} == expected


NOTED = ("desired", "maximum")


@given(rollout=rollouts(within_bounds=True), replicas=sizes)
def test_a_change_loses_and_adds_no_pod(rollout: Rollout, replicas: int) -> None:
    """The sum is exactly the size that is allowed, and no size is below 0.

    Provided that there are not more pods than there may be to begin with.
    """
    spec = replace(rollout.deployment.spec, replicas=replicas)
    resized = replace(rollout.deployment, spec=spec)
    changed = Rollout(resized, rollout.new, rollout.old)
    sized = [each for each in changed.all if desired_replicas(each) > 0]
    plan = plan_scaling(changed)
    assert all(each.replicas >= 0 for each in plan)
    goal = max_total(resized) if replicas else 0
    if len(sized) > 1 and len(plan) == len(sized) and total(changed) != goal:
        assert sum(each.replicas for each in plan) == goal


def test_recreate_has_neither_surge_nor_unavailability() -> None:
    subject = deployment(4, strategy=RECREATE)
    assert (max_surge(subject), max_unavailable(subject)) == (0, 0)
    rollout = Rollout(subject, replica_set("newest", 0), (replica_set("o", 4, 4),))
    assert [each.replicas for each in plan_scale_down(rollout)] == [0]
    assert [each.replicas for each in plan_scale_up(rollout)] == [4]


@pytest.mark.parametrize(
    ("phase", "running"),
    [("Running", True), ("Pending", True), ("Unknown", True), ("Failed", False)],
)
def test_recreate_waits_for_pods_that_have_not_ended(phase: str, running: bool) -> None:
    """A terminating pod runs until it is gone; an ended one does not."""
    rollout = Rollout(deployment(4), None, (replica_set("o", 0),))
    assert old_pods_running(rollout, [pod(phase=phase)]) is running


NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def progressing(reason: str, status: str = "True", age: int = 0) -> Deployment:
    entry = condition(PROGRESSING, status, reason, "m", NOW - timedelta(seconds=age))
    subject = deployment(progressDeadlineSeconds=60)
    return replace(subject, status=DeploymentStatus(conditions=(entry,)))


def test_a_condition_changes_with_its_status_or_reason() -> None:
    """Else times and message stay, and the time of transition with the status."""
    old = condition("A", "True", "R", "before", NOW)
    later = NOW + timedelta(hours=1)
    same = condition("A", "True", "R", "after", later)
    assert with_condition((old,), same) == (old,)
    other = condition("A", "True", "S", "m", later)
    kept = replace(other, last_transition_time=old.last_transition_time)
    assert with_condition((old,), other) == (kept,)
    ended = condition("A", "False", "R", "m", later)
    assert with_condition((old,), ended) == (ended,)


@pytest.mark.parametrize(
    ("reason", "age", "missed", "next_check"),
    [
        ("ReplicaSetUpdated", 10, False, 51.0),
        ("ReplicaSetUpdated", 60, False, 1.0),
        ("ReplicaSetUpdated", 61, True, 1.0),
        ("ProgressDeadlineExceeded", 10, True, None),
        ("NewReplicaSetAvailable", 1000, False, None),
    ],
)
def test_a_deadline_passes_only_after_its_time(
    reason: str, age: int, missed: bool, next_check: float | None
) -> None:
    """Never once the rollout is complete; the next sync comes a second later."""
    subject = progressing(reason, age=age)
    current = find_condition(subject.status.conditions, PROGRESSING)
    assert has_timed_out(subject, current, NOW) is missed
    assert next_progress_check(subject, subject.status, NOW) == next_check


@pytest.mark.parametrize(
    ("reason", "status", "paused", "noted"),
    [
        ("ReplicaSetUpdated", "True", True, ("Unknown", "DeploymentPaused")),
        ("DeploymentPaused", "Unknown", False, ("Unknown", "DeploymentResumed")),
        ("ProgressDeadlineExceeded", "False", True, None),
    ],
)
def test_pausing_and_resuming_are_noted(
    reason: str, status: str, paused: bool, noted: tuple[str, str] | None
) -> None:
    """So a pause never counts as missing progress, nor covers up a missed deadline."""
    subject = progressing(reason, status)
    subject = replace(subject, spec=replace(subject.spec, paused=paused))
    after = record_pause(subject, NOW)
    if noted is None:
        assert after == subject
        return
    found = find_condition(after.status.conditions, PROGRESSING)
    assert found is not None
    assert (found.status, found.reason) == noted
