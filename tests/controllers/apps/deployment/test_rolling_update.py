"""The strategy RollingUpdate."""

import msgspec
from hypothesis import assume, given

from controller_manager.api.apps.v1 import (
    ReplicaSet,
    desired_replicas,
)
from controller_manager.controllers.apps.deployment.rollout import Rollout
from controller_manager.controllers.apps.deployment.scaling import (
    lasting_available,
    max_total,
    max_unavailable,
    plan_rolling,
)
from tests.controllers.apps.deployment.strategies import rollouts, total
from tests.controllers.builders import deployment, replica_set


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
