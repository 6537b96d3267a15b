"""The strategy RollingUpdate."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import assume, given

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
from tests.controllers.apps.deployment.builders import bounds, rollouts, sizes, total
from tests.controllers.builders import deployment, pod, replica_set


def after(rollout: Rollout) -> Rollout:
    """Carry out one step of a rolling update."""
    for resize in plan_rolling(rollout):
        spec = msgspec.structs.replace(
            resize.replica_set.spec, replicas=resize.replicas
        )
        changed = msgspec.structs.replace(resize.replica_set, spec=spec)
        new, *old = (
            changed if each is resize.replica_set else each
            for each in (rollout.new, *rollout.old)
        )
        rollout = Rollout(rollout.deployment, new, tuple(filter(None, old)))
    return rollout


@given(rollout=rollouts())
def test_a_step_never_plans_more_pods_than_wanted_plus_surge(
    rollout: Rollout,
) -> None:
    """If there are more already, it wants no additional pod."""
    assert total(after(rollout)) <= max(max_total(rollout.deployment), total(rollout))


@given(rollout=rollouts())
def test_a_step_never_takes_more_available_pods_than_allowed(
    rollout: Rollout,
) -> None:
    """The remaining available pods stay above the bound."""
    subject = rollout.deployment
    least = desired_replicas(subject) - max_unavailable(subject)

    def lasting(which: Rollout) -> int:
        return sum(map(lasting_available, which.all))

    # Shrinking a new replica set that is too large is not part of the rollout.
    assert rollout.new is not None
    assume(desired_replicas(rollout.new) <= desired_replicas(subject))
    assert lasting(after(rollout)) >= min(least, lasting(rollout))


@given(rollout=rollouts())
def test_sizes_never_go_below_zero_and_old_ones_never_grow(rollout: Rollout) -> None:
    """Each step scales the new replica set up, or old ones down."""
    following = after(rollout)
    assert all(desired_replicas(each) >= 0 for each in following.all)
    for before, later in zip(rollout.old, following.old, strict=True):
        assert desired_replicas(later) <= desired_replicas(before)


@given(rollout=rollouts())
def test_a_rollout_comes_to_its_end_when_pods_become_available(
    rollout: Rollout,
) -> None:
    """From any state; then the sizes do not change any more."""
    for _ in range(200):
        following = after(rollout)
        assert following.new is not None
        healed = Rollout(
            following.deployment,
            _healed(following.new),
            tuple(map(_healed, following.old)),
        )
        if healed == rollout:
            break
        rollout = healed
    assert rollout.new is not None
    assert desired_replicas(rollout.new) == desired_replicas(rollout.deployment)
    assert [desired_replicas(each) for each in rollout.old] == [0] * len(rollout.old)
    assert plan_rolling(rollout) == ()


def _healed(subject: ReplicaSet) -> ReplicaSet:
    """Make as many pods available as are wanted."""
    size = desired_replicas(subject)
    status = msgspec.structs.replace(
        subject.status, replicas=size, available_replicas=size
    )
    return msgspec.structs.replace(subject, status=status)


def test_unhealthy_old_pods_go_first() -> None:
    """Deleting them costs no availability, in any replica set."""
    older = replica_set("o", 4, 4)
    sick = replica_set("oo", 4, 1)
    new = replica_set("newest", 5, 5)
    plan = plan_rolling(Rollout(deployment(10, 3, 2), new, (older, sick)))
    assert {each.replica_set.metadata.name: each.replicas for each in plan} == {
        "oo": 1,
        "o": 2,
    }


def test_pods_that_will_be_deleted_do_not_count_as_available() -> None:
    """Upstream takes five more here (kubernetes#22719)."""
    old = replica_set("o", 7, 11, current=11)
    new = replica_set("newest", 4, 0)
    plan = plan_rolling(Rollout(deployment(8, 3, 2), new, (old,)))
    assert [(each.replica_set, each.replicas) for each in plan] == [(old, 6)]


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


@given(surge=bounds, unavailable=bounds, replicas=sizes)
def test_a_rollout_can_always_continue(
    surge: int | str, unavailable: int | str, replicas: int
) -> None:
    """With any values that a user writes."""
    resolved = fenceposts(surge, unavailable, replicas)
    assert min(resolved) >= 0
    assert sum(resolved) > 0


def test_the_annotation_shows_a_changed_size() -> None:
    """Only replica sets with pods and the annotation count."""
    subject = deployment(5)
    changed = replica_set("o", 3, desired=3)
    unmarked = replica_set("oo", 3)
    empty = replica_set("ooo", 0, desired=3)
    same = replica_set("oooo", 3, desired=5)
    assert is_scaling_event(Rollout(subject, changed, (unmarked,)))
    assert not is_scaling_event(Rollout(subject, same, (unmarked, empty)))


def test_recreating_continues_with_pods_of_several_templates_and_a_new_size() -> None:
    """Upstream then scales nothing, and never continues the rollout (seed 55)."""
    subject = deployment(7, strategy={"type": "Recreate"})
    first, second = replica_set("o", 1, desired=1), replica_set("oo", 1, desired=1)
    assert not is_scaling_event(Rollout(subject, None, (first, second)))
    assert is_scaling_event(Rollout(subject, None, (first,)))


def planned(rollout: Rollout) -> dict[str, int]:
    return {
        each.replica_set.metadata.name: each.replicas for each in plan_scaling(rollout)
    }


def test_the_only_replica_set_with_pods_takes_the_whole_change() -> None:
    """Even if it is an old one."""
    old = replica_set("o", 3, 3, desired=3)
    new = replica_set("newest", 0, desired=3)
    assert planned(Rollout(deployment(5), new, (old,))) == {"o": 5}


def test_without_any_pods_the_newest_is_scaled_up() -> None:
    """The new one, or else the youngest old one."""
    olds = (replica_set("o", 0), replica_set("oo", 0))
    new = replica_set("newest", 0, desired=0)
    assert planned(Rollout(deployment(2), new, olds)) == {"newest": 2}
    assert planned(Rollout(deployment(2), None, olds)) == {"oo": 2}


def test_once_the_new_replica_set_is_complete_old_ones_are_scaled_to_zero() -> None:
    """For example, when an old replica set is adopted later."""
    old = replica_set("o", 3, 3)
    new = replica_set("newest", 5, 5, desired=5)
    assert planned(Rollout(deployment(5), new, (old,))) == {"o": 0}


def test_a_change_is_distributed_in_proportion_with_the_remainder_to_the_largest() -> (
    None
):
    """10 with surge 3, split 8 and 5, scaled to 15 and back to 8: as recorded."""
    old = replica_set("o", 8, 8, desired=10, maximum=13)
    new = replica_set("newest", 5, 0, desired=10, maximum=13)
    grown = planned(Rollout(deployment(15, 3, 2), new, (old,)))
    assert grown == {"o": 11, "newest": 7}
    old = replica_set("o", 11, 11, desired=15, maximum=18)
    new = replica_set("newest", 7, 0, desired=15, maximum=18)
    assert planned(Rollout(deployment(8, 3, 2), new, (old,))) == {"o": 7, "newest": 4}


@given(rollout=rollouts(within_bounds=True), replicas=sizes)
def test_distributing_a_change_loses_and_adds_no_pod(
    rollout: Rollout, replicas: int
) -> None:
    """The sum is exactly the size that is allowed, and no size is below 0.

    Provided that there are not more pods than there may be to begin with.
    """
    spec = msgspec.structs.replace(rollout.deployment.spec, replicas=replicas)
    resized = msgspec.structs.replace(rollout.deployment, spec=spec)
    changed = Rollout(resized, rollout.new, rollout.old)
    sized = [each for each in changed.all if desired_replicas(each) > 0]
    plan = plan_scaling(changed)
    assert all(each.replicas >= 0 for each in plan)
    goal = max_total(resized) if replicas else 0
    if len(sized) > 1 and len(plan) == len(sized) and total(changed) != goal:
        assert sum(each.replicas for each in plan) == goal


def test_scaling_to_zero_takes_all_pods_of_all() -> None:
    """Also in the middle of a rollout."""
    old = replica_set("o", 3, 3, desired=4, maximum=5)
    new = replica_set("newest", 2, 0, desired=4, maximum=5)
    rollout = Rollout(deployment(0), new, (old,))
    assert planned(rollout) == {"o": 0, "newest": 0}


def test_recreate_has_neither_surge_nor_unavailability() -> None:
    """It creates all pods together, after all old pods are gone."""
    subject = deployment(4, strategy={"type": "Recreate"})
    assert (max_surge(subject), max_unavailable(subject)) == (0, 0)
    old, new = replica_set("o", 4, 4), replica_set("newest", 0)
    rollout = Rollout(subject, new, (old,))
    assert [each.replicas for each in plan_scale_down(rollout)] == [0]
    assert [each.replicas for each in plan_scale_up(rollout)] == [4]


@pytest.mark.parametrize(
    ("phase", "running"),
    [("Running", True), ("Pending", True), ("Unknown", True), ("Failed", False)],
)
def test_recreate_waits_for_pods_that_have_not_ended(phase: str, running: bool) -> None:
    """A terminating pod runs until it is gone; an ended one does not."""
    old = replica_set("o", 0)
    rollout = Rollout(deployment(4), None, (old,))
    assert old_pods_running(rollout, [pod(phase=phase)]) is running


NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def progressing(reason: str, status: str = "True", age: int = 0) -> Deployment:
    subject = deployment(progressDeadlineSeconds=60)
    entry = condition(PROGRESSING, status, reason, "m", NOW - timedelta(seconds=age))
    status_ = DeploymentStatus(conditions=(entry,))
    return msgspec.structs.replace(subject, status=status_)


def test_the_same_status_and_reason_change_nothing() -> None:
    """Then times and message do not change."""
    old = condition("A", "True", "R", "before", NOW)
    same = condition("A", "True", "R", "after", NOW + timedelta(hours=1))
    assert with_condition((old,), same) == (old,)


def test_another_reason_keeps_the_time_of_transition() -> None:
    """As long as the status is the same."""
    old = condition("A", "True", "R", "m", NOW)
    other = condition("A", "True", "S", "m", NOW + timedelta(hours=1))
    (result,) = with_condition((old,), other)
    assert result.reason == "S"
    assert result.last_transition_time == old.last_transition_time
    assert result.last_update_time == other.last_update_time


def test_a_deadline_passes_only_after_its_time() -> None:
    """It never passes once the rollout is complete."""
    subject = progressing("ReplicaSetUpdated", age=60)
    current = find_condition(subject.status.conditions, PROGRESSING)
    assert not has_timed_out(subject, current, NOW)
    assert has_timed_out(subject, current, NOW + timedelta(seconds=1))
    done = progressing("NewReplicaSetAvailable", age=1000)
    current = find_condition(done.status.conditions, PROGRESSING)
    assert not has_timed_out(done, current, NOW)


def test_the_next_sync_comes_a_second_after_the_deadline() -> None:
    """None once it is complete or has failed."""
    for reason, expected in (
        ("ReplicaSetUpdated", 51.0),
        ("ProgressDeadlineExceeded", None),
        ("NewReplicaSetAvailable", None),
    ):
        subject = progressing(reason, age=10)
        status = subject.status
        assert next_progress_check(subject, status, NOW) == expected


def paused(subject: Deployment, *, value: bool) -> Deployment:
    spec = msgspec.structs.replace(subject.spec, paused=value)
    return msgspec.structs.replace(subject, spec=spec)


def test_pausing_and_resuming_are_noted() -> None:
    """So a pause never counts as missing progress."""
    subject = paused(progressing("ReplicaSetUpdated"), value=True)
    noted = find_condition(record_pause(subject, NOW).status.conditions, PROGRESSING)
    assert noted is not None
    assert (noted.status, noted.reason) == ("Unknown", "DeploymentPaused")
    resumed = progressing("DeploymentPaused", "Unknown")
    noted = find_condition(record_pause(resumed, NOW).status.conditions, PROGRESSING)
    assert noted is not None
    assert (noted.status, noted.reason) == ("Unknown", "DeploymentResumed")


def test_a_missed_deadline_is_not_covered_up_by_a_pause() -> None:
    """The reason ProgressDeadlineExceeded stays."""
    subject = paused(progressing("ProgressDeadlineExceeded", "False"), value=True)
    assert record_pause(subject, NOW) == subject
