"""What the deployment controller decides, as values."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from controller_manager.api.apps.v1 import (
    DeploymentStatus,
    ReplicaSet,
    desired_replicas,
)
from controller_manager.api.core.v1 import PodTemplateSpec
from controller_manager.api.meta import ObjectMeta, raw_json
from controller_manager.controllers.apps.deployment.creation import new_replica_set
from controller_manager.controllers.apps.deployment.progress import (
    has_timed_out,
    next_progress_check,
    note_pause,
)
from controller_manager.controllers.apps.deployment.recreate import (
    old_pods_running,
    plan_growing,
    plan_shrinking,
)
from controller_manager.controllers.apps.deployment.revisions import (
    REVISION,
    REVISION_HISTORY,
    last_revision,
    superfluous,
    synced_annotations,
)
from controller_manager.controllers.apps.deployment.rolling import plan_rolling
from controller_manager.controllers.apps.deployment.rollout import Rollout, find_rollout
from controller_manager.controllers.apps.deployment.scaling import (
    fenceposts,
    is_scaling_event,
    lasting_available,
    max_surge,
    max_total,
    max_unavailable,
    plan_scaling,
)
from controller_manager.controllers.apps.deployment.status import (
    PROGRESSING,
    Draft,
    condition,
    find_condition,
    with_condition,
)
from controller_manager.controllers.apps.deployment.templates import (
    equal_ignoring_hash,
    template_hash,
)
from tests.controllers.builders import deployment, pod, replica_set

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)

sizes = st.integers(0, 30)
bounds = st.one_of(st.integers(0, 12), st.integers(0, 100).map("{}%".format))


# Fenceposts


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
def test_a_rollout_can_always_move(
    surge: int | str, unavailable: int | str, replicas: int
) -> None:
    """Whatever the user wrote."""
    resolved = fenceposts(surge, unavailable, replicas)
    assert min(resolved) >= 0
    assert sum(resolved) > 0


# Rolling update


@st.composite
def rollouts(draw: st.DrawFn, *, within_bounds: bool = False) -> Rollout:
    """Draw a rolling deployment in any state that it can be in.

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


def after(rollout: Rollout) -> Rollout:
    """Carry out one step of a rolling update."""
    for resize in plan_rolling(rollout):
        spec = msgspec.structs.replace(
            resize.replica_set.spec, replicas=resize.replicas
        )
        rollout = rollout.replace(
            msgspec.structs.replace(resize.replica_set, spec=spec)
        )
    return rollout


def total(rollout: Rollout) -> int:
    return sum(desired_replicas(each) for each in rollout.all)


@given(rollout=rollouts())
def test_a_step_never_plans_more_pods_than_wanted_plus_surge(
    rollout: Rollout,
) -> None:
    """Unless there are more already, and then not one more."""
    assert total(after(rollout)) <= max(max_total(rollout.deployment), total(rollout))


@given(rollout=rollouts())
def test_a_step_never_takes_more_available_pods_than_allowed(
    rollout: Rollout,
) -> None:
    """What will be left of available pods stays above the bound."""
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
    """Each step is one of growing the new or shrinking the old."""
    following = after(rollout)
    assert all(desired_replicas(each) >= 0 for each in following.all)
    for before, later in zip(rollout.old, following.old, strict=True):
        assert desired_replicas(later) <= desired_replicas(before)


@given(rollout=rollouts())
def test_a_rollout_comes_to_its_end_when_pods_become_available(
    rollout: Rollout,
) -> None:
    """From any state, and then stays there."""
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
    """They cost no availability, whichever replica set they are of."""
    older = replica_set("o", 4, 4)
    sick = replica_set("oo", 4, 1)
    new = replica_set("newest", 5, 5)
    plan = plan_rolling(Rollout(deployment(10, 3, 2), new, (older, sick)))
    assert {each.replica_set.metadata.name: each.replicas for each in plan} == {
        "oo": 1,
        "o": 2,
    }


def test_pods_that_are_about_to_go_do_not_count_as_available() -> None:
    """Upstream takes five more here (kubernetes#22719)."""
    old = replica_set("o", 7, 11, current=11)
    new = replica_set("newest", 4, 0)
    plan = plan_rolling(Rollout(deployment(8, 3, 2), new, (old,)))
    assert [(each.replica_set, each.replicas) for each in plan] == [(old, 6)]


# Scaling


def test_a_changed_size_is_told_by_the_annotation() -> None:
    """Only replica sets with pods and the annotation say anything."""
    subject = deployment(5)
    changed = replica_set("o", 3, desired=3)
    unmarked = replica_set("oo", 3)
    empty = replica_set("ooo", 0, desired=3)
    same = replica_set("oooo", 3, desired=5)
    assert is_scaling_event(Rollout(subject, changed, (unmarked,)))
    assert not is_scaling_event(Rollout(subject, same, (unmarked, empty)))


def test_recreating_goes_on_when_several_templates_have_pods_and_the_size_changed() -> (
    None
):
    """Upstream scales nothing then, and for ever nothing else (seed 55)."""
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


def test_without_any_pods_the_newest_grows() -> None:
    """The new one, or else the youngest old one."""
    olds = (replica_set("o", 0), replica_set("oo", 0))
    new = replica_set("newest", 0, desired=0)
    assert planned(Rollout(deployment(2), new, olds)) == {"newest": 2}
    assert planned(Rollout(deployment(2), None, olds)) == {"oo": 2}


def test_once_the_new_one_is_complete_the_old_ones_go() -> None:
    """As when an old replica set is adopted afterwards."""
    old = replica_set("o", 3, 3)
    new = replica_set("newest", 5, 5, desired=5)
    assert planned(Rollout(deployment(5), new, (old,))) == {"o": 0}


def test_a_change_is_spread_in_proportion_with_leftovers_to_the_largest() -> None:
    """10 with surge 3, split 8 and 5, scaled to 15 and back to 8: as recorded."""
    old = replica_set("o", 8, 8, desired=10, maximum=13)
    new = replica_set("newest", 5, 0, desired=10, maximum=13)
    grown = planned(Rollout(deployment(15, 3, 2), new, (old,)))
    assert grown == {"o": 11, "newest": 7}
    old = replica_set("o", 11, 11, desired=15, maximum=18)
    new = replica_set("newest", 7, 0, desired=15, maximum=18)
    assert planned(Rollout(deployment(8, 3, 2), new, (old,))) == {"o": 7, "newest": 4}


@given(rollout=rollouts(within_bounds=True), replicas=sizes)
def test_spreading_loses_and_invents_no_pod(rollout: Rollout, replicas: int) -> None:
    """The sum is exactly what the deployment may have, and nobody gets less than 0.

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


def test_recreate_knows_neither_surge_nor_unavailability() -> None:
    """The whole size at once, after everything old is gone."""
    subject = deployment(4, strategy={"type": "Recreate"})
    assert (max_surge(subject), max_unavailable(subject)) == (0, 0)
    old, new = replica_set("o", 4, 4), replica_set("newest", 0)
    rollout = Rollout(subject, new, (old,))
    assert [each.replicas for each in plan_shrinking(rollout)] == [0]
    assert [each.replicas for each in plan_growing(rollout)] == [4]


@pytest.mark.parametrize(
    ("phase", "running"),
    [("Running", True), ("Pending", True), ("Unknown", True), ("Failed", False)],
)
def test_recreate_waits_for_pods_that_have_not_ended(phase: str, running: bool) -> None:
    """A terminating pod runs until it is gone; an ended one does not."""
    old = replica_set("o", 0)
    rollout = Rollout(deployment(4), None, (old,))
    assert old_pods_running(rollout, [pod(phase=phase)]) is running


# Revisions and templates


def made(spec: object, **labels: str) -> PodTemplateSpec:
    metadata = ObjectMeta(labels=labels or None)
    return PodTemplateSpec(metadata=metadata, spec=raw_json(spec))


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ({"a": 1}, {"a": 1}, True),
        ({"a": 1, "b": None}, {"a": 1}, True),
        ({"a": 1, "b": []}, {"a": 1}, True),
        ({"nodeSelector": {}}, {}, True),
        ({"a": [{"resources": {}, "x": None}]}, {"a": [{}]}, True),
        ({"b": 1, "a": 2}, {"a": 2, "b": 1}, True),
        ({"a": [1, 2]}, {"a": [2, 1]}, False),
        ({"v": [{"emptyDir": {}}]}, {"v": [{}]}, False),
        ({"a": 0}, {}, False),
        ({"a": ""}, {"a": "x"}, False),
    ],
)
def test_templates_are_equal_if_they_make_the_same_pods(
    one: object, other: object, equal: bool
) -> None:
    """Absent, null and empty are alike; the order of keys does not matter."""
    assert equal_ignoring_hash(made(one), made(other)) is equal


def test_the_hash_label_does_not_count_but_other_labels_do() -> None:
    """It is what the controller itself adds."""
    plain = made({}, app="web")
    hashed = made({}, **{"app": "web", "pod-template-hash": "x"})
    assert equal_ignoring_hash(plain, hashed)
    assert not equal_ignoring_hash(plain, made({}, app="api"))
    assert template_hash(plain, None) == template_hash(hashed, None)


def test_a_collision_gives_another_hash() -> None:
    """In upstream's alphabet, ten letters at most."""
    hashes = {template_hash(made({}), count) for count in (None, 1, 2, 3)}
    assert len(hashes) == 4
    for each in hashes:
        assert 1 <= len(each) <= 10
        assert set(each) <= set("bcdfghjklmnpqrstvwxz2456789")


def test_the_oldest_replica_set_of_the_template_is_the_new_one() -> None:
    """Every sync picks the same."""
    young, old = replica_set("nn", 1), replica_set("n", 1)
    other = replica_set("o", 1, image="app:v0")
    rollout = find_rollout(deployment(), [young, other, old])
    assert rollout.new == old
    assert rollout.old == (other, young)


def test_a_new_replica_set_carries_hash_owner_and_annotations() -> None:
    """Name, labels, selector and template agree."""
    subject = deployment(minReadySeconds=5)
    made_set = new_replica_set(subject, 3, {"a": "b"})
    digest = template_hash(subject.spec.template, None)
    labels = {"app": "web", "pod-template-hash": digest}
    assert msgspec.json.decode(msgspec.json.encode(made_set)) == {
        "metadata": {
            "name": f"web-{digest}",
            "namespace": "default",
            "labels": labels,
            "annotations": {"a": "b"},
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "Deployment",
                    "name": "web",
                    "uid": "d",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "replicas": 3,
            "minReadySeconds": 5,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "c", "image": "app:v1"}]},
            },
        },
    }


def annotated(**annotations: str) -> Rollout:
    subject = deployment()
    metadata = msgspec.structs.replace(subject.metadata, annotations=annotations)
    return Rollout(msgspec.structs.replace(subject, metadata=metadata), None, ())


def test_annotations_are_inherited_but_for_the_controllers_own() -> None:
    """And what the deployment lost stays."""
    parent = annotated(
        **{
            "kubernetes.io/change-cause": "x",
            REVISION: "9",
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
            "deprecated.deployment.rollback.to": "1",
        }
    ).deployment
    assert synced_annotations(parent, {"kept": "y"}, 3) == {
        "kept": "y",
        "kubernetes.io/change-cause": "x",
        REVISION: "3",
    }


def test_an_older_revision_goes_to_the_history() -> None:
    """A reused replica set remembers; a higher revision is left alone."""
    parent = annotated().deployment
    assert synced_annotations(parent, {REVISION: "1"}, 3) == {
        REVISION: "3",
        REVISION_HISTORY: "1",
    }
    assert synced_annotations(parent, {REVISION: "3", REVISION_HISTORY: "1"}, 5) == {
        REVISION: "5",
        REVISION_HISTORY: "1,3",
    }
    assert synced_annotations(parent, {REVISION: "7"}, 3) == {REVISION: "7"}


def test_the_history_is_cut_from_its_oldest_end() -> None:
    """At 2,000 characters."""
    history = ",".join(str(n) for n in range(100, 600))
    result = synced_annotations(
        annotated().deployment, {REVISION: "600", REVISION_HISTORY: history}, 601
    )
    kept = result[REVISION_HISTORY].split(",")
    assert len(result[REVISION_HISTORY]) <= 2000
    assert (kept[0], kept[-1], len(kept)) == ("101", "600", 500)


def test_the_last_revision_is_the_second_highest() -> None:
    """What an undo without a number goes back to."""
    sets = [replica_set(f"r{n}", 0, revision=n) for n in (1, 4, 3)]
    assert last_revision(sets) == 3
    assert last_revision(sets[:1]) == 0


def test_only_empty_old_replica_sets_beyond_the_limit_go_oldest_first() -> None:
    """Those with pods, or not yet observed, stay."""
    olds = tuple(
        replica_set(f"r{n}", 1 if n == 2 else 0, revision=n) for n in range(1, 6)
    )
    rollout = Rollout(deployment(revisionHistoryLimit=1), None, olds)
    assert [each.metadata.name for each in superfluous(rollout)] == ["r1", "r3", "r4"]
    everything = Rollout(deployment(revisionHistoryLimit=5), None, olds)
    assert superfluous(everything) == ()
    assert superfluous(Rollout(deployment(), None, olds)) == ()


# Conditions and progress


def progressing(reason: str, status: str = "True", age: int = 0) -> Draft:
    subject = deployment(progressDeadlineSeconds=60)
    entry = condition(PROGRESSING, status, reason, "m", NOW - timedelta(seconds=age))
    status_ = DeploymentStatus(conditions=(entry,))
    return Draft.of(msgspec.structs.replace(subject, status=status_))


def test_the_same_status_for_the_same_reason_is_no_news() -> None:
    """Then times and message stay as they were."""
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
    """And never once the rollout is complete."""
    draft = progressing("ReplicaSetUpdated", age=60)
    current = find_condition(draft.conditions, PROGRESSING)
    assert not has_timed_out(draft.deployment, current, NOW)
    assert has_timed_out(draft.deployment, current, NOW + timedelta(seconds=1))
    done = progressing("NewReplicaSetAvailable", age=1000)
    current = find_condition(done.conditions, PROGRESSING)
    assert not has_timed_out(done.deployment, current, NOW)


def test_the_next_look_comes_a_second_after_the_deadline() -> None:
    """None once it is complete or has failed."""
    for reason, expected in (
        ("ReplicaSetUpdated", 51.0),
        ("ProgressDeadlineExceeded", None),
        ("NewReplicaSetAvailable", None),
    ):
        draft = progressing(reason, age=10)
        status = draft.deployment.status
        assert next_progress_check(draft.deployment, status, NOW) == expected


def paused(draft: Draft, *, value: bool) -> Draft:
    spec = msgspec.structs.replace(draft.deployment.spec, paused=value)
    return Draft.of(msgspec.structs.replace(draft.deployment, spec=spec))


def test_pausing_and_resuming_are_noted() -> None:
    """So that a pause never counts as no progress."""
    draft = paused(progressing("ReplicaSetUpdated"), value=True)
    noted = find_condition(note_pause(draft, NOW).conditions, PROGRESSING)
    assert noted is not None
    assert (noted.status, noted.reason) == ("Unknown", "DeploymentPaused")
    resumed = progressing("DeploymentPaused", "Unknown")
    noted = find_condition(note_pause(resumed, NOW).conditions, PROGRESSING)
    assert noted is not None
    assert (noted.status, noted.reason) == ("Unknown", "DeploymentResumed")


def test_a_missed_deadline_is_not_covered_up_by_a_pause() -> None:
    """It stays on record."""
    draft = paused(progressing("ProgressDeadlineExceeded", "False"), value=True)
    assert note_pause(draft, NOW) == draft
