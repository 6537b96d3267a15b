"""The plan and the status of a sync, for pods in every state."""

from itertools import chain
from typing import Any

import pytest
from msgspec.structs import replace

from controller_manager.api.apps.v1 import StatefulSetStatus
from controller_manager.api.pods import is_terminal
from controller_manager.controllers.apps.statefulset.identity import ClaimChanges
from controller_manager.controllers.apps.statefulset.ordering import (
    Plan,
    PodWork,
    plan_sync,
    seconds_until_change,
)
from controller_manager.controllers.apps.statefulset.replicas import (
    Replicas,
    Settings,
    is_same,
)
from controller_manager.controllers.apps.statefulset.rolling_update import (
    allowed_unavailable,
)
from tests.controllers.apps.statefulset.builders import (
    LATER,
    NEW,
    NOW,
    SINCE,
    claim,
    claim_template,
    owner,
    pod,
    pods_of,
    rolling,
    seen,
    stateful_set,
)

PARALLEL: dict[str, Any] = {"podManagementPolicy": "Parallel"}
ON_DELETE: dict[str, Any] = {"updateStrategy": {"type": "OnDelete"}}
CLAIMS: dict[str, Any] = {"volumeClaimTemplates": [claim_template()]}
NAME = "statefulset.kubernetes.io/pod-name"
POLICY = "persistentVolumeClaimRetentionPolicy"
SHRINKS: dict[str, Any] = {POLICY: {"whenScaled": "Delete"}}
GATE = Settings(max_unavailable=True)
AS_UPSTREAM = Settings(replaces_stuck_pods=False, max_unavailable=True)
DATA = (claim("data-web-0"),)


def steps(found: Replicas) -> str:
    """Return the writes of a sync in words; ``|`` separates simultaneous ones."""
    plan = plan_sync(found, NOW)
    together = [
        list(map(_word, plan.wanted)),
        [f"owners for {pod.metadata.name}" for pod, _ in plan.corrections],
        [f"delete {pod.metadata.name}" for pod in plan.condemned],
    ]
    last = [f"replace {pod.metadata.name}" for pod in plan.replaced]
    last += [f"refuse {name}" for name in plan.refused]
    if not found.is_parallel:
        return ", ".join([*chain.from_iterable(together), *last])
    return ", ".join([*(" | ".join(each) for each in together if each), *last])


def _word(work: PodWork) -> str:
    pod, name = work.slot.pod, work.slot.name
    if pod is None:
        return f"create {name} {work.revision}"
    if is_terminal(pod):
        return f"delete {name}"
    if work.claims.missing or work.claims.deleting:
        return f"claims of {name}"
    return f"update {name}"


def update(partition: int = 0, **more: Any) -> dict[str, Any]:
    return {"updateStrategy": rolling(partition, **more)}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        # One pod at a time is created, each when all before it are available.
        (seen(), "create web-0 web-new"),
        (seen("new-0"), "create web-1 web-new"),
        (seen("new-0, new-1, new-2"), ""),
        (seen("new-0 unready"), ""),
        (seen("new-0 terminating"), ""),
        (seen("new-0 recent", minReadySeconds=9), ""),
        (seen("new-0 recent", minReadySeconds=2), "create web-1 web-new"),
        # A hole is filled before anything else.
        (seen("new-0, new-2"), "create web-1 web-new"),
        (seen("new-1, new-2"), "create web-0 web-new"),
        # Ended pods go first, even if they are already terminating.
        (seen("new-0, new-1 failed"), "delete web-1"),
        (seen("new-0 succeeded, new-1"), "delete web-0"),
        (seen("new-0 failed terminating"), ""),
        # Ordinals may begin anywhere.
        (seen("", 2, ordinals={"start": 5}), "create web-5 web-new"),
        (seen("", 0), ""),
        # Condemned pods go from the highest on, each when the one before it is gone.
        (seen("new-0, new-1, new-2", 1), "delete web-2"),
        (seen("new-0, new-1, new-2 terminating", 1), ""),
        (seen("new-0 unready, new-1, new-2", 1), ""),
        # The first unavailable pod may be deleted, but no lower pod.
        (seen("new-0, new-1, new-2 unready", 1), "delete web-2"),
        (seen("new-0, new-1 unready, new-2 unready", 1), ""),
        (seen("new-0, new-1 unready, new-2", 1), "delete web-2"),
        (seen("new-0, new-1 unready", 1), "delete web-1"),
        # The sync does not wait for a pod that has ended.
        (seen("new-0, new-1 failed unready, new-2", 1), "delete web-2"),
        (seen("new-0, new-1 failed unready, new-2 failed unready", 1), "delete web-2"),
        (seen("new-0, new-1 failed, new-2 failed", 1), "delete web-2"),
        # Ordinals below the start go after those above the end, and the new range.
        (seen("new-0, new-1", 2, ordinals={"start": 1}), "create web-2 web-new"),
        (seen("new-0, new-1, new-2", 2, ordinals={"start": 1}), "delete web-0"),
        (seen("new-0, new-1, new-2, new-7", 2, ordinals={"start": 1}), "delete web-7"),
    ],
)
def test_pods_come_and_go_in_order(found: Replicas, expected: str) -> None:
    assert steps(found) == expected


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (seen("old-0, old-1, old-2"), "replace web-2"),
        (seen("old-0, old-1, new-2"), "replace web-1"),
        (seen("old-0, old-1, new-2 unready"), ""),
        (seen("old-0, old-1, old-2 terminating"), ""),
        (seen("old-0, old-1, old-2", **update(2)), "replace web-2"),
        (seen("old-0, old-1, new-2", **update(2)), ""),
        (seen("old-0, old-1, old-2", **update(9)), ""),
        (seen("old-0, old-1, old-2", **ON_DELETE), ""),
        # A lost pod comes back on its side of the partition.
        (seen("new-1, new-2", **update(2)), "create web-0 web-old"),
        (seen("old-0, old-1", **update(2)), "create web-2 web-new"),
        (seen("old-1, old-2"), "create web-0 web-new"),
        (seen("old-0, old-1", **ON_DELETE), "create web-2 web-new"),
        # A pod without a revision is outdated.
        (seen("new-0, new-1, bare-2"), "replace web-2"),
        # Without the gate, maxUnavailable has no effect; with it, the partition holds.
        (seen("old-0, old-1, old-2", **update(maxUnavailable=2)), "replace web-2"),
        (
            seen("old-0, old-1, old-2", settings=GATE, **update(2, maxUnavailable=3)),
            "replace web-2",
        ),
    ],
)
def test_an_update_goes_down_to_the_partition(found: Replicas, expected: str) -> None:
    assert steps(found) == expected


def test_without_its_parameters_an_update_keeps_the_current_pods() -> None:
    """As many as the status counts; an old API server stores no partition."""
    strategy, status = {"type": "RollingUpdate"}, {"currentReplicas": 1}
    for pods, made in (("", "web-0 web-old"), ("old-0", "web-1 web-new")):
        found = seen(pods, 2, updateStrategy=strategy, status=status)
        assert steps(found) == f"create {made}"


@pytest.mark.parametrize(
    ("pods", "replicas", "expected"),
    [
        ("", 3, "create web-0 web-new | create web-1 web-new | create web-2 web-new"),
        (
            "new-1 unready, new-3, new-2",
            1,
            "create web-0 web-new, delete web-3 | delete web-2 | delete web-1",
        ),
        ("new-0 terminating, new-1 failed", 3, "delete web-1 | create web-2 web-new"),
        ("old-0, old-1, old-2", 3, "replace web-2"),
        # The update does not wait for the broken pod, but for the new pod.
        ("old-0, old-1, broken-2 unready", 3, "replace web-2"),
        ("old-0 unready, old-1, new-2 unready", 3, ""),
    ],
)
def test_parallel_pods_do_not_wait(pods: str, replicas: int, expected: str) -> None:
    """Except that an update replaces one pod at a time."""
    assert steps(seen(pods, replicas, **PARALLEL)) == expected


@pytest.mark.parametrize(
    ("pods", "settings", "expected"),
    [
        ("old-0, old-1, old-2, old-3", GATE, "replace web-3, replace web-2"),
        ("old-0, old-1, old-2, new-3 unready", GATE, "replace web-2"),
        ("old-0, old-1, new-2 unready, new-3 unready", GATE, ""),
        (
            "old-0 stuck, old-1 stuck, old-2, old-3",
            GATE,
            "replace web-1, replace web-0",
        ),
        ("old-0 unready, old-1 unready, old-2, old-3", GATE, ""),
        ("old-0 stuck, old-1 stuck, old-2, old-3", AS_UPSTREAM, ""),
        ("old-0 unready, old-1 unready, old-2, old-3", AS_UPSTREAM, ""),
        ("old-0 unready, old-1, old-2, old-3", AS_UPSTREAM, "replace web-3"),
    ],
)
def test_several_may_be_missing(pods: str, settings: Settings, expected: str) -> None:
    """Old pods that are broken need no budget here."""
    found = seen(pods, 4, settings=settings, **update(maxUnavailable=2), **PARALLEL)
    assert steps(found) == expected


@pytest.mark.parametrize(
    ("value", "replicas", "allowed"),
    [(None, 4, 1), (2, 4, 2), ("50%", 5, 2), ("10%", 4, 1), ("100%", 4, 4)],
)
def test_a_percentage_is_one_at_least(value: Any, replicas: int, allowed: int) -> None:
    """As upstream's getStatefulSetMaxUnavailable."""
    given = {} if value is None else {"maxUnavailable": value}
    assert allowed_unavailable(seen("", replicas, **update(**given))) == allowed


def test_a_set_that_is_being_deleted_only_reports() -> None:
    """The garbage collector deletes its pods, unless they are orphaned."""
    found = seen("new-0 failed")
    subject = found.stateful_set
    metadata = replace(subject.metadata, deletion_timestamp=SINCE)
    found = replace(found, stateful_set=replace(subject, metadata=metadata))
    assert plan_sync(found, NOW) == Plan()
    assert seconds_until_change(found, NOW) is None
    assert found.status(NOW).replicas == 1


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (seen("new-0 terminating"), "web-0: this pod to terminate"),
        (seen("new-0 unready"), "web-0: this pod to become ready"),
        (
            seen("new-0 recent", minReadySeconds=9),
            "web-0: this pod to become available",
        ),
        (
            seen("new-0, new-1 unready, new-2 unready", 1),
            "web-1: this pod to become available",
        ),
        (
            seen("", 1, foreign=(pod(0, uid="other"),)),
            "web-0: this pod, which is not the set's, to be deleted",
        ),
        (
            seen(
                "",
                1,
                claims=(claim("data-web-0", owner("StatefulSet", "web", "former")),),
                **CLAIMS,
            ),
            "data-web-0: this claim to be deleted with its owner",
        ),
        (seen("new-0", 1), ""),
    ],
)
def test_the_reason_names_what_is_waited_for(found: Replicas, expected: str) -> None:
    """So the log has the reason why a rollout does not continue."""
    reasons = plan_sync(found, NOW).reasons
    said = [f"{each.object.name}: {each.waiting_for}" for each in reasons]
    assert said == ([expected] if expected else [])


def test_the_next_sync_is_when_the_next_pod_becomes_available() -> None:
    """No event comes when minReadySeconds are over."""
    found = seen("new-0 recent", 2, minReadySeconds=9)
    assert plan_sync(found, NOW).reasons
    assert seconds_until_change(found, NOW) == 7


def test_a_name_that_a_foreign_pod_has_is_refused() -> None:
    stranger = pod(0, uid="other", labels={NAME: ""})
    leaving = pod(0, uid="other", labels={NAME: ""}, terminating=True)
    released = pod(0, uid="other")
    assert steps(seen(foreign=(stranger,))) == "refuse web-0"
    assert steps(seen(foreign=(leaving,))) == ""
    assert steps(seen(foreign=(released,))) == ""
    together = seen("", 2, foreign=(stranger,), **PARALLEL)
    assert steps(together) == "create web-1 web-new, refuse web-0"


def test_a_lost_name_label_is_restored() -> None:
    found = seen("", 2, pod(0, labels={NAME: "other"}))
    assert steps(found) == "update web-0, create web-1 web-new"
    assert steps(seen("new-0", 1)) == ""


PENDING = pod(0, phase="Pending", ready=False, claims=("data-web-0",))
DOOMED = (claim("data-web-0", owner("Pod", "web-0", "earlier")),)
OF_EARLIER_SET = (claim("data-web-0", owner("StatefulSet", "web", "earlier")),)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        # Claims come with their pod, also with one that is still pending.
        (seen("", 1, PENDING, **CLAIMS), "claims of web-0"),
        (seen("", 1, PENDING, claims=DATA, **CLAIMS), ""),
        (seen("", 1, pod(0, claims=("data-web-0",)), **CLAIMS), ""),
        # No pod starts with a claim that will be deleted with its owner: a pod that
        # was scaled away, or an earlier set.
        (seen("", 1, claims=DOOMED, **CLAIMS, **SHRINKS), ""),
        (seen("", 1, claims=DOOMED, **CLAIMS), "create web-0 web-new"),
        (seen("", 1, claims=OF_EARLIER_SET, **CLAIMS), ""),
        # A broken pod with the claims of an earlier set is replaced.
        (seen("new-0, new-1 stuck", 2, created=LATER, **CLAIMS), "replace web-1"),
        (seen("new-0, new-1 unready", 2, created=LATER, **CLAIMS), ""),
    ],
)
def test_a_pod_needs_its_claims(found: Replicas, expected: str) -> None:
    assert steps(found) == expected


def claims_made(found: Replicas) -> list[str]:
    (work,) = plan_sync(found, NOW).wanted
    return [each.metadata.name for each in work.claims.missing]


def test_missing_claims_are_created_with_their_pod() -> None:
    """A claim that a pending pod does not use is not: a quota may refuse it."""
    assert claims_made(seen("", 1, **CLAIMS)) == ["data-web-0"]
    (work,) = plan_sync(seen("", 1, claims=DATA, **CLAIMS), NOW).wanted
    assert work.claims == ClaimChanges()
    both: dict[str, Any] = {
        "volumeClaimTemplates": [claim_template(), claim_template("wal")]
    }
    leaving = claim("wal-web-0", deletionTimestamp=SINCE)
    found = seen("", 1, PENDING, created=LATER, **both)
    assert claims_made(found) == ["data-web-0"]
    claims = {"data-web-0": DATA[0], "wal-web-0": leaving}
    assert steps(replace(found, claims=claims)) == ""


def test_a_new_claim_of_another_controller_is_reported() -> None:
    """The retention policy does not apply to it."""
    templates = [claim_template(ownerReferences=[owner("Database", "db")])]
    policy: dict[str, Any] = {POLICY: {"whenDeleted": "Delete"}}
    (work,) = plan_sync(
        seen("", 1, volumeClaimTemplates=templates, **policy), NOW
    ).wanted
    assert work.claims.conflicts == ("data-web-0",)


def test_a_pod_with_the_claims_of_an_earlier_set_is_replaced() -> None:
    former = pod(0, created=SINCE)
    found = seen("", 1, former, created=LATER, claims=DATA, revisions=NEW, **CLAIMS)
    assert plan_sync(found, NOW) == Plan(replaced=(former,))
    assert numbers(found.status(NOW)) == (1, 1, 1, 0, 0)
    assert numbers(found.status(NOW, (former,))) == (1, 1, 1, 0, 0)
    for left in (ON_DELETE, update(1)):
        assert (
            steps(replace(found, stateful_set=stateful_set(1, **left, **CLAIMS))) == ""
        )


def test_a_pod_of_the_set_that_lacks_a_claim_stays() -> None:
    """A webhook has removed the volume, and would remove it from the next pod, too.

    Upstream tries to give it the volume, which the API server refuses.
    """
    found = seen("", 1, pod(0, created=LATER), claims=DATA, revisions=NEW, **CLAIMS)
    assert steps(found) == ""
    assert numbers(found.status(NOW)) == (1, 1, 1, 1, 1)


def test_owners_follow_a_changed_policy() -> None:
    policy: dict[str, Any] = {POLICY: {"whenDeleted": "Delete", "whenScaled": "Delete"}}
    pods = [pod(each, claims=(f"data-web-{each}",)) for each in (0, 1)]
    bare = (claim("data-web-0"), claim("data-web-1"))
    owned = (
        claim("data-web-0", owner("StatefulSet", "web")),
        claim("data-web-1", owner("Pod", "web-1")),
    )
    for claims, expected in (
        (bare, "update web-0, owners for web-1, delete web-1"),
        (owned, "delete web-1"),
    ):
        assert steps(seen("", 1, *pods, claims=claims, **CLAIMS, **policy)) == expected


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
        ("", (0, 0, 0, 0, 0)),
        ("old-0, new-1", (2, 2, 2, 1, 1)),
        ("old-0 unready, new-1", (2, 1, 1, 1, 1)),
        ("old-0, new-1 recent", (2, 2, 1, 1, 1)),
        # Terminating pods are replicas, and may be ready, but are of no revision.
        ("old-0 terminating, new-1", (2, 2, 2, 0, 1)),
        ("bare-0, new-1", (2, 2, 2, 0, 1)),
        ("old-0 failed, new-1", (2, 1, 1, 1, 1)),
        ("old-0 unseen, new-1", (1, 1, 1, 0, 1)),
    ],
)
def test_states_and_revisions_are_counted(pods: str, expected: tuple[int, ...]) -> None:
    """As in upstream's computeReplicaStatus."""
    assert numbers(seen(pods, minReadySeconds=9).status(NOW)) == expected


def test_a_pod_that_was_just_replaced_is_no_current_one() -> None:
    """Only pods of the current revision are subtracted, so nothing is negative."""
    status = seen("old-0, old-1", 2).status(NOW, pods_of("old-1"))
    assert numbers(status) == (2, 2, 2, 1, 0)
    adopted = seen("bare-0", 1, revisions=NEW)
    assert numbers(adopted.status(NOW, pods_of("bare-0"))) == (1, 1, 1, 0, 0)


@pytest.mark.parametrize(
    ("replicas", "strategy", "pods", "current"),
    [
        (2, "RollingUpdate", "new-0, new-1", "web-new"),
        (2, "RollingUpdate", "new-0, new-1 unready", "web-old"),
        (2, "RollingUpdate", "new-0, old-1", "web-old"),
        (2, "RollingUpdate", "new-0, new-1, new-2", "web-old"),
        (0, "RollingUpdate", "", "web-new"),
        (2, "OnDelete", "new-0, new-1", "web-old"),
    ],
)
def test_the_update_revision_becomes_current_once_all_pods_have_it(
    replicas: int, strategy: str, pods: str, current: str
) -> None:
    status = seen(pods, replicas, updateStrategy={"type": strategy}).status(NOW)
    assert (status.current_revision, status.update_revision) == (current, "web-new")


def test_an_unchanged_status_is_not_written() -> None:
    """Conditions of others are kept, and an older generation is never reported."""
    written = StatefulSetStatus(observed_generation=2, replicas=1, collision_count=0)
    assert is_same(written, written)
    assert is_same(written, replace(written, observed_generation=1))
    assert is_same(replace(written, collision_count=None), written)
    assert not is_same(written, replace(written, observed_generation=3))
    assert not is_same(written, replace(written, replicas=2))
