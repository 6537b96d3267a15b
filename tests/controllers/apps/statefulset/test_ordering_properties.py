"""Properties of the plan of a sync, for pods in every state."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from controller_manager.api.apps.v1 import StatefulSetStatus
from controller_manager.api.core.v1 import Pod
from controller_manager.api.pods import is_terminal
from controller_manager.controllers.apps.statefulset.failures import start_failures
from controller_manager.controllers.apps.statefulset.identity import (
    ordinal_of,
    ordinals,
)
from controller_manager.controllers.apps.statefulset.ordering import Plan, plan_sync
from controller_manager.controllers.apps.statefulset.replicas import (
    Replicas,
    Revisions,
    Settings,
    Slot,
    is_running_and_ready,
    is_same,
)
from controller_manager.controllers.apps.statefulset.rolling_update import (
    is_broken,
    partition,
)
from tests.controllers.apps.statefulset.builders import (
    NEW,
    UPDATING,
    pod,
    replicas_of,
    rolling,
    stateful_set,
)

NOW = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
TEN_MINUTES_AGO = "2025-12-31T23:51:00Z"
LONG_SEEN = datetime(2025, 1, 1, tzinfo=UTC)
LONG_AGO, RECENT = "2026-01-01T00:00:00Z", "2026-01-01T00:00:58Z"

unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def pods(draw: st.DrawFn, ordinal: int) -> Pod:
    """Draw a pod in any state, of any revision."""
    waits = draw(st.sampled_from(({}, {}, {"waiting": "ImagePullBackOff"})))
    return pod(
        ordinal,
        draw(st.sampled_from(("web-new", "web-old", "web-broken", ""))),
        phase=draw(st.sampled_from(("Running", "Running", "Pending", "Failed"))),
        ready=draw(st.booleans()) and not waits,
        since=draw(st.sampled_from((TEN_MINUTES_AGO, LONG_AGO, RECENT))),
        terminating=draw(st.sampled_from((False, False, True))),
        **waits,
    )


@st.composite
def sets(draw: st.DrawFn, /, **fixed: Any) -> Replicas:
    """Draw a set with any pods, in any phase of an update."""
    spec: dict[str, Any] = {
        "podManagementPolicy": draw(st.sampled_from(("OrderedReady", "Parallel"))),
        "updateStrategy": draw(
            st.sampled_from((rolling(), rolling(), rolling(1), {"type": "OnDelete"}))
        ),
        "minReadySeconds": draw(st.sampled_from((0, 9))),
        "ordinals": {"start": draw(st.integers(0, 2))},
        **fixed,
    }
    present = draw(st.sets(st.integers(0, 6)))
    current = draw(st.sampled_from(("web-new", "web-old")))
    return replicas_of(
        stateful_set(draw(st.integers(0, 4)), **spec),
        *(draw(pods(each)) for each in sorted(present)),
        revisions=Revisions(current, "web-new"),
        settings=Settings(draw(st.booleans()), draw(st.booleans())),
    )


def plan_problems(seen: Replicas, plan: Plan, now: datetime) -> Iterator[str]:
    """Yield how the plan of a sync breaks the order of pods."""
    yield from _wrong_replacements(seen, plan.replaced)
    if seen.is_parallel:
        return
    created = created_by(plan)
    count = len(created) + len(deleted_by(plan))
    if count > 1:
        yield f"{count} pods are created or deleted at a time"
    for new in created:
        for slot in seen.slots:
            if slot.ordinal < new.ordinal and seen.is_unavailable(slot.pod, now):
                yield f"{new.name} is created before {slot.name} is available"
    for each in plan.condemned:
        if each is not seen.condemned[0]:
            yield f"{each.metadata.name} is deleted before a higher one"
    for each in plan.replaced:
        yield from _replaced_too_early(seen, each, now)


def created_by(plan: Plan) -> list[Slot]:
    """Return the ordinals for which a plan creates pods."""
    return [each.slot for each in plan.wanted if each.slot.pod is None]


def deleted_by(plan: Plan) -> list[Pod]:
    """Return the pods that a plan deletes."""
    pods = [each.slot.pod for each in plan.wanted if each.slot.pod is not None]
    ended = [pod for pod in pods if is_terminal(pod)]
    return [*ended, *plan.condemned, *plan.replaced]


def _wrong_replacements(seen: Replicas, replaced: Iterable[Pod]) -> Iterator[str]:
    """Yield pods that an update must not delete, but deletes."""
    first = ordinals(seen.stateful_set).start + partition(seen)
    for each in replaced:
        name, ordinal = each.metadata.name, ordinal_of(seen.stateful_set, each)
        if seen.revision_of(each) == seen.revisions.update:
            yield f"{name} is replaced though it is up to date"
        if ordinal is None or ordinal < first:
            yield f"{name} is replaced below the partition"


def _replaced_too_early(seen: Replicas, pod: Pod, now: datetime) -> Iterator[str]:
    name = pod.metadata.name
    if is_running_and_ready(pod):
        for slot in seen.slots:
            if slot.pod is not pod and seen.is_unavailable(slot.pod, now):
                yield f"{name} is replaced beside {slot.name}"
        return
    revision, current = seen.revision_of(pod), seen.revisions.current
    works = any(
        is_running_and_ready(each) and seen.revision_of(each) == current
        for each in seen.pods
    )
    may_recover = not is_broken(seen, pod, now)
    if revision == "" or may_recover or (revision == current and works):
        yield f"{name} is replaced though it may recover"


@unhurried
@given(sets())
def test_every_set_has_a_plan(seen: Replicas) -> None:
    """And the same set has the same one: it keeps no state."""
    assert plan_sync(seen, NOW) == plan_sync(seen, NOW)


@unhurried
@given(sets())
def test_no_plan_breaks_the_order_of_pods(seen: Replicas) -> None:
    """As upstream's: one at a time, each after the one before it is available."""
    assert list(plan_problems(seen, plan_sync(seen, NOW), NOW)) == []


@unhurried
@given(sets())
def test_no_plan_touches_a_pod_twice_or_one_that_is_terminating(
    seen: Replicas,
) -> None:
    """A name is created or deleted once, and not both."""
    plan = plan_sync(seen, NOW)
    deleted = deleted_by(plan)
    assert all(each.metadata.deletion_timestamp is None for each in deleted)
    names = [each.metadata.name for each in deleted]
    names += [each.name for each in created_by(plan)]
    assert len(names) == len(set(names))


@unhurried
@given(sets(), st.integers(0, 127))
def test_no_status_has_a_negative_number(seen: Replicas, mask: int) -> None:
    """Whichever pods were replaced in the sync."""
    replaced = [each for at, each in enumerate(seen.pods) if mask & 1 << at]
    status = seen.status(NOW, replaced)
    counts = (
        status.replicas,
        status.ready_replicas,
        status.available_replicas,
        status.current_replicas,
        status.updated_replicas,
    )
    assert min(counts) >= 0
    assert max(counts) <= len(seen.pods)


@unhurried
@given(sets(updateStrategy=rolling()))
def test_a_rolling_update_comes_to_its_end(seen: Replicas) -> None:
    """If pods go when they are deleted and new ones become ready at once.

    In the end each wanted ordinal has a pod of the update revision, and no other pod
    is left. Broken pods of old revisions are no obstacle.
    """
    seen = replace(seen, settings=Settings(replaces_stuck_pods=True))
    for _ in range(40):
        plan = plan_sync(_recovered(seen), NOW)
        if not plan.has_writes:
            break
        seen = _carried_out(_recovered(seen), plan)
    end = _recovered(seen)
    assert not end.condemned
    for slot in end.slots:
        assert slot.pod is not None
        assert slot.pod.metadata.labels is not None
        assert slot.pod.metadata.labels["controller-revision-hash"] == "web-new"


def _recovered(seen: Replicas) -> Replicas:
    """Return the set when terminating pods are gone, and pods that work are ready."""
    kept = []
    for each in seen.pods:
        if each.metadata.deletion_timestamp is not None:
            continue
        revision = (each.metadata.labels or {})["controller-revision-hash"]
        ordinal = int(each.metadata.name.removeprefix("web-"))
        # Of two broken pods that are scaled away, the higher waits for the lower, as
        # upstream.
        is_wanted = ordinal in ordinals(seen.stateful_set)
        is_broken = revision == "web-broken" and is_wanted
        if each.status.phase != "Failed":
            broken = {"waiting": "ErrImagePull", "since": TEN_MINUTES_AGO}
            fields: dict[str, Any] = broken if is_broken else {}
            each = pod(ordinal, revision, **fields)  # noqa: PLW2901
        kept.append(each)
    failing = {each.metadata.uid: LONG_SEEN for each in kept if start_failures(each)}
    return replace(seen, pods=tuple(kept), failing_since=failing)


def _carried_out(seen: Replicas, plan: Plan) -> Replicas:
    deleted = {each.metadata.name for each in deleted_by(plan)}
    left = [each for each in seen.pods if each.metadata.name not in deleted]
    new = [
        pod(each.slot.ordinal, each.revision)
        for each in plan.wanted
        if each.slot.pod is None
    ]
    return replace(seen, pods=(*left, *new))


RECENT = "2026-01-01T00:00:58Z"


def old(ordinal: int, **fields: Any) -> Pod:
    return pod(ordinal, "web-old", **fields)


def numbers(status: StatefulSetStatus) -> tuple[int, ...]:
    """Return all, ready, available, current and updated replicas."""
    return (
        status.replicas,
        status.ready_replicas,
        status.available_replicas,
        status.current_replicas,
        status.updated_replicas,
    )


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ([], (0, 0, 0, 0, 0)),
        ([old(0), pod(1)], (2, 2, 2, 1, 1)),
        ([old(0, ready=False), pod(1)], (2, 1, 1, 1, 1)),
        ([old(0), pod(1, since=RECENT)], (2, 2, 1, 1, 1)),
        # Terminating pods are replicas, and may be ready, but are of no revision.
        ([old(0, terminating=True), pod(1)], (2, 2, 2, 0, 1)),
        ([pod(0, ""), pod(1)], (2, 2, 2, 0, 1)),
        ([old(0, phase="Failed"), pod(1)], (2, 1, 1, 1, 1)),
        ([old(0, phase=""), pod(1)], (1, 1, 1, 0, 1)),
    ],
)
def test_pods_are_counted_by_state_and_revision(
    pods: list[Pod], expected: tuple[int, ...]
) -> None:
    """As in upstream's computeReplicaStatus."""
    seen = replicas_of(stateful_set(3, minReadySeconds=9), *pods, revisions=UPDATING)
    assert numbers(seen.status(NOW)) == expected


def test_a_pod_that_was_just_replaced_is_no_current_one() -> None:
    """Only pods of the current revision are subtracted, so nothing is negative."""
    seen = replicas_of(stateful_set(2), old(0), old(1), revisions=UPDATING)
    replaced = seen.status(NOW, (old(1),))
    assert numbers(replaced) == (2, 2, 2, 1, 0)
    adopted = replicas_of(stateful_set(1), pod(0, ""), revisions=NEW)
    replaced = adopted.status(NOW, (pod(0, ""),))
    assert numbers(replaced) == (1, 1, 1, 0, 0)


@pytest.mark.parametrize(
    ("replicas", "strategy", "pods", "current"),
    [
        (2, "RollingUpdate", [pod(0), pod(1)], "web-new"),
        (2, "RollingUpdate", [pod(0), pod(1, ready=False)], "web-old"),
        (2, "RollingUpdate", [pod(0), old(1)], "web-old"),
        (2, "RollingUpdate", [pod(0), pod(1), pod(2)], "web-old"),
        (0, "RollingUpdate", [], "web-new"),
        (2, "OnDelete", [pod(0), pod(1)], "web-old"),
    ],
)
def test_the_update_revision_becomes_current_once_all_pods_have_it(
    replicas: int, strategy: str, pods: list[Pod], current: str
) -> None:
    """With any partition; never with OnDelete."""
    subject = stateful_set(replicas, updateStrategy={"type": strategy})
    status = replicas_of(subject, *pods, revisions=UPDATING).status(NOW)
    assert status.current_revision == current
    assert status.update_revision == "web-new"


def test_an_unchanged_status_is_not_written() -> None:
    """Conditions of others are kept, and an older generation is never reported."""
    written = StatefulSetStatus(observed_generation=2, replicas=1, collision_count=0)
    assert is_same(written, written)
    assert is_same(written, replace(written, observed_generation=1))
    assert is_same(replace(written, collision_count=None), written)
    assert not is_same(written, replace(written, observed_generation=3))
    assert not is_same(written, replace(written, replicas=2))
