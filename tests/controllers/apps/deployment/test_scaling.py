"""Sizes: bounds in pods, and plans for a new size of a deployment."""

import msgspec
import pytest
from hypothesis import given

from controller_manager.api.apps.v1 import desired_replicas
from controller_manager.controllers.apps.deployment.rollout import Rollout
from controller_manager.controllers.apps.deployment.scaling import (
    fenceposts,
    is_scaling_event,
    max_total,
    plan_scaling,
)
from tests.controllers.apps.deployment.strategies import bounds, rollouts, sizes, total
from tests.controllers.builders import deployment, replica_set


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
