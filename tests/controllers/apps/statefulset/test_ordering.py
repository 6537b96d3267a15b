"""The plan of a sync, for pods in every state."""

from datetime import UTC, datetime
from itertools import chain
from typing import Any

import pytest
from msgspec.structs import replace

from controller_manager.api.core.v1 import Pod
from controller_manager.api.pods import is_terminal
from controller_manager.controllers.apps.statefulset.identity import ClaimChanges
from controller_manager.controllers.apps.statefulset.ordering import (
    Plan,
    PodWork,
    plan_sync,
    seconds_until_change,
)
from controller_manager.controllers.apps.statefulset.replicas import Replicas, Settings
from controller_manager.controllers.apps.statefulset.rolling_update import (
    allowed_unavailable,
)
from tests.controllers.apps.statefulset.builders import (
    LATER,
    SINCE,
    UPDATING,
    claim,
    claim_template,
    owner,
    pod,
    replicas_of,
    rolling,
    stateful_set,
)

NOW = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
RECENT = "2026-01-01T00:00:58Z"
PARALLEL: dict[str, Any] = {"podManagementPolicy": "Parallel"}
CLAIMS: dict[str, Any] = {"volumeClaimTemplates": [claim_template()]}
SCALED_DELETE: dict[str, Any] = {
    "persistentVolumeClaimRetentionPolicy": {
        "whenDeleted": "Retain",
        "whenScaled": "Delete",
    }
}


def steps(seen: Replicas) -> list[str]:
    """Return the writes of a sync in words; ``|`` separates simultaneous ones."""
    plan = plan_sync(seen, NOW)
    together = [
        list(map(_word, plan.wanted)),
        [f"owners for {pod.metadata.name}" for pod, _ in plan.corrections],
        [f"delete {pod.metadata.name}" for pod in plan.condemned],
    ]
    last = [f"replace {pod.metadata.name}" for pod in plan.replaced]
    last += [f"refuse {name}" for name in plan.refused]
    if not seen.is_parallel:
        return [*chain.from_iterable(together), *last]
    return [*(" | ".join(each) for each in together if each), *last]


def _word(work: PodWork) -> str:
    pod, name = work.slot.pod, work.slot.name
    if pod is None:
        return f"create {name} {work.revision}"
    if is_terminal(pod):
        return f"delete {name}"
    if work.claims.missing or work.claims.deleting:
        return f"claims of {name}"
    return f"update {name}"


def waits_for(seen: Replicas) -> list[str]:
    reasons = plan_sync(seen, NOW).reasons
    return [f"{each.object.name}: {each.waiting_for}" for each in reasons]


def old(ordinal: int, **fields: Any) -> Pod:
    return pod(ordinal, "web-old", **fields)


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (replicas_of(stateful_set()), ["create web-0 web-new"]),
        (replicas_of(stateful_set(), pod(0)), ["create web-1 web-new"]),
        (replicas_of(stateful_set(), pod(0), pod(1), pod(2)), []),
        (replicas_of(stateful_set(), pod(0, ready=False)), []),
        (replicas_of(stateful_set(), pod(0, terminating=True)), []),
        (replicas_of(stateful_set(minReadySeconds=9), pod(0, since=RECENT)), []),
        (
            replicas_of(stateful_set(minReadySeconds=2), pod(0, since=RECENT)),
            ["create web-1 web-new"],
        ),
        # A hole is filled before anything else.
        (replicas_of(stateful_set(), pod(0), pod(2)), ["create web-1 web-new"]),
        (replicas_of(stateful_set(), pod(1), pod(2)), ["create web-0 web-new"]),
        # Ended pods go first, even if they are already terminating.
        (replicas_of(stateful_set(), pod(0), pod(1, phase="Failed")), ["delete web-1"]),
        (
            replicas_of(stateful_set(), pod(0, phase="Succeeded"), pod(1)),
            ["delete web-0"],
        ),
        (replicas_of(stateful_set(), pod(0, phase="Failed", terminating=True)), []),
        # Ordinals may begin anywhere.
        (replicas_of(stateful_set(2, ordinals={"start": 5})), ["create web-5 web-new"]),
        (replicas_of(stateful_set(0)), []),
    ],
)
def test_pods_are_created_in_order(seen: Replicas, expected: list[str]) -> None:
    """One at a time, each when all before it are available."""
    assert steps(seen) == expected


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ([pod(0), pod(1), pod(2)], ["delete web-2"]),
        ([pod(0), pod(1), pod(2, terminating=True)], []),
        ([pod(0, ready=False), pod(1), pod(2)], []),
        # The first unavailable pod may be deleted, but no lower pod.
        ([pod(0), pod(1), pod(2, ready=False)], ["delete web-2"]),
        ([pod(0), pod(1, ready=False), pod(2, ready=False)], []),
        ([pod(0), pod(1, ready=False), pod(2)], ["delete web-2"]),
        ([pod(0), pod(1, ready=False)], ["delete web-1"]),
        # The sync does not wait for a pod that has ended.
        ([pod(0), pod(1, phase="Failed", ready=False), pod(2)], ["delete web-2"]),
        (
            [pod(0), *(pod(each, phase="Failed", ready=False) for each in (1, 2))],
            ["delete web-2"],
        ),
        ([pod(0), pod(1, phase="Failed"), pod(2, phase="Failed")], ["delete web-2"]),
    ],
)
def test_condemned_pods_go_from_the_highest_on(
    pods: list[Pod], expected: list[str]
) -> None:
    """Each when the one before it has terminated, and only beside available ones."""
    assert steps(replicas_of(stateful_set(1), *pods)) == expected


def test_ordinals_below_the_start_are_condemned_too() -> None:
    """After those above the end, and after the new range is complete."""
    moved = stateful_set(2, ordinals={"start": 1})
    assert steps(replicas_of(moved, pod(0), pod(1))) == ["create web-2 web-new"]
    assert steps(replicas_of(moved, pod(0), pod(1), pod(2))) == ["delete web-0"]
    assert steps(replicas_of(moved, pod(0), pod(1), pod(2), pod(7))) == ["delete web-7"]


@pytest.mark.parametrize(
    ("strategy", "pods", "expected"),
    [
        (rolling(), [old(0), old(1), old(2)], ["replace web-2"]),
        (rolling(), [old(0), old(1), pod(2)], ["replace web-1"]),
        (rolling(), [old(0), old(1), pod(2, ready=False)], []),
        (rolling(), [old(0), old(1), old(2, terminating=True)], []),
        (rolling(), [pod(0), pod(1), pod(2)], []),
        (rolling(2), [old(0), old(1), old(2)], ["replace web-2"]),
        (rolling(2), [old(0), old(1), pod(2)], []),
        (rolling(9), [old(0), old(1), old(2)], []),
        ({"type": "OnDelete"}, [old(0), old(1), old(2)], []),
        # A lost pod comes back on its side of the partition.
        (rolling(2), [pod(1), pod(2)], ["create web-0 web-old"]),
        (rolling(2), [old(0), old(1)], ["create web-2 web-new"]),
        (rolling(), [old(1), old(2)], ["create web-0 web-new"]),
        ({"type": "OnDelete"}, [old(0), old(1)], ["create web-2 web-new"]),
        # A pod without a revision is outdated.
        (rolling(), [pod(0), pod(1), pod(2, revision="")], ["replace web-2"]),
    ],
)
def test_an_update_goes_from_the_highest_pod_to_the_partition(
    strategy: dict[str, Any], pods: list[Pod], expected: list[str]
) -> None:
    """One pod at a time, each when those above it are available again."""
    subject = stateful_set(updateStrategy=strategy)
    assert steps(replicas_of(subject, *pods, revisions=UPDATING)) == expected


def test_without_parameters_of_the_update_the_current_pods_keep_their_revision() -> (
    None
):
    """As many as the status counts; an old API server stores no partition."""
    strategy = {"type": "RollingUpdate"}
    status = {"currentReplicas": 1}
    subject = stateful_set(2, updateStrategy=strategy, status=status)
    assert steps(replicas_of(subject, revisions=UPDATING)) == ["create web-0 web-old"]
    assert steps(replicas_of(subject, old(0), revisions=UPDATING)) == [
        "create web-1 web-new"
    ]


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (
            replicas_of(stateful_set(**PARALLEL)),
            ["create web-0 web-new | create web-1 web-new | create web-2 web-new"],
        ),
        (
            replicas_of(
                stateful_set(1, **PARALLEL), pod(1, ready=False), pod(3), pod(2)
            ),
            ["create web-0 web-new", "delete web-3 | delete web-2 | delete web-1"],
        ),
        (
            replicas_of(
                stateful_set(**PARALLEL),
                pod(0, terminating=True),
                pod(1, phase="Failed"),
            ),
            ["delete web-1 | create web-2 web-new"],
        ),
        (
            replicas_of(
                stateful_set(**PARALLEL), old(0), old(1), old(2), revisions=UPDATING
            ),
            ["replace web-2"],
        ),
        # The update does not wait for the broken pod, but for the new pod.
        (
            replicas_of(
                stateful_set(**PARALLEL),
                *(old(0), old(1), pod(2, "web-broken", ready=False)),
                revisions=UPDATING,
            ),
            ["replace web-2"],
        ),
        (
            replicas_of(
                stateful_set(**PARALLEL),
                *(old(0, ready=False), old(1), pod(2, ready=False)),
                revisions=UPDATING,
            ),
            [],
        ),
    ],
)
def test_parallel_pods_do_not_wait_for_each_other(
    seen: Replicas, expected: list[str]
) -> None:
    """Except that an update replaces one pod at a time."""
    assert steps(seen) == expected


def test_a_set_that_is_being_deleted_only_reports() -> None:
    """The garbage collector deletes its pods, unless they are orphaned."""
    subject = stateful_set()
    obj = replicas_of(_deleted(subject), pod(0, phase="Failed"))
    assert plan_sync(obj, NOW) == Plan()
    assert seconds_until_change(obj, NOW) is None
    assert obj.status(NOW).replicas == 1


def _deleted(subject: Any) -> Any:
    metadata = replace(subject.metadata, deletion_timestamp=RECENT)
    return replace(subject, metadata=metadata)


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (
            replicas_of(stateful_set(), pod(0, terminating=True)),
            ["web-0: this pod to terminate"],
        ),
        (
            replicas_of(stateful_set(), pod(0, ready=False)),
            ["web-0: this pod to become ready"],
        ),
        (
            replicas_of(stateful_set(minReadySeconds=9), pod(0, since=RECENT)),
            ["web-0: this pod to become available"],
        ),
        (
            replicas_of(
                stateful_set(1), pod(0), pod(1, ready=False), pod(2, ready=False)
            ),
            ["web-1: this pod to become available"],
        ),
        (
            replicas_of(stateful_set(1), foreign=(_foreign := pod(0, uid="other"),)),
            ["web-0: this pod, which is not the set's, to be deleted"],
        ),
        (
            replicas_of(
                stateful_set(1, **CLAIMS),
                claims=(claim("data-web-0", owner("StatefulSet", "web", "former")),),
            ),
            ["data-web-0: this claim to be deleted with its owner"],
        ),
        (replicas_of(stateful_set(1), pod(0)), []),
    ],
)
def test_the_reason_names_the_object_that_the_set_waits_for(
    seen: Replicas, expected: list[str]
) -> None:
    """So the log has the reason why a rollout does not continue."""
    assert waits_for(seen) == expected


def test_the_next_sync_is_when_the_next_pod_becomes_available() -> None:
    """No event comes when minReadySeconds are over."""
    seen = replicas_of(stateful_set(2, minReadySeconds=9), pod(0, since=RECENT))
    assert plan_sync(seen, NOW).reasons
    assert seconds_until_change(seen, NOW) == 7


def test_a_name_that_a_foreign_pod_has_is_refused() -> None:
    """Unless the pod is being deleted, or the set has released it."""
    labels = {"statefulset.kubernetes.io/pod-name": ""}
    stranger = pod(0, uid="other", labels=labels)
    assert steps(replicas_of(stateful_set(), foreign=(stranger,))) == ["refuse web-0"]
    leaving = pod(0, uid="other", labels=labels, terminating=True)
    assert steps(replicas_of(stateful_set(), foreign=(leaving,))) == []
    together = replicas_of(stateful_set(2, **PARALLEL), foreign=(stranger,))
    assert steps(together) == ["create web-1 web-new", "refuse web-0"]
    released = pod(0, uid="other")
    assert steps(replicas_of(stateful_set(), foreign=(released,))) == []


def test_a_lost_name_label_is_restored() -> None:
    """And the sync continues; a missing index alone is not restored."""
    bare = pod(0, labels={"statefulset.kubernetes.io/pod-name": "other"})
    assert steps(replicas_of(stateful_set(2), bare)) == [
        "update web-0",
        "create web-1 web-new",
    ]
    assert steps(replicas_of(stateful_set(1), pod(0))) == []


def test_missing_claims_are_created_with_their_pod() -> None:
    """Also those of a pod that is still pending."""
    subject = stateful_set(1, **CLAIMS)
    (work,) = _works(replicas_of(subject))
    assert [each.metadata.name for each in work.claims.missing] == ["data-web-0"]
    (work,) = _works(replicas_of(subject, claims=(claim("data-web-0"),)))
    assert work.claims == ClaimChanges()
    pending = pod(0, phase="Pending", ready=False, claims=("data-web-0",))
    assert steps(replicas_of(subject, pending)) == ["claims of web-0"]
    assert steps(replicas_of(subject, pending, claims=(claim("data-web-0"),))) == []
    running = pod(0, claims=("data-web-0",))
    assert steps(replicas_of(subject, running)) == []


def test_a_new_claim_of_another_controller_is_reported() -> None:
    """The retention policy does not apply to it."""
    other = owner("Database", "db")
    subject = stateful_set(
        1,
        volumeClaimTemplates=[claim_template(ownerReferences=[other])],
        persistentVolumeClaimRetentionPolicy={"whenDeleted": "Delete"},
    )
    (work,) = _works(replicas_of(subject))
    assert work.claims.conflicts == ("data-web-0",)


def _works(seen: Replicas) -> tuple[PodWork, ...]:
    return plan_sync(seen, NOW).wanted


def test_a_pod_does_not_start_with_a_claim_that_will_be_deleted() -> None:
    """It belongs to a pod that was scaled away, or to a deleted set."""
    doomed = claim("data-web-0", owner("Pod", "web-0", "earlier"))
    subject = stateful_set(1, **CLAIMS, **SCALED_DELETE)
    assert steps(replicas_of(subject, claims=(doomed,))) == []
    kept = stateful_set(1, **CLAIMS)
    assert steps(replicas_of(kept, claims=(doomed,))) == ["create web-0 web-new"]
    of_earlier_set = claim("data-web-0", owner("StatefulSet", "web", "earlier"))
    assert steps(replicas_of(kept, claims=(of_earlier_set,))) == []


def test_a_pod_with_the_claims_of_an_earlier_set_is_replaced() -> None:
    """Its label has the update revision; it was created before the set."""
    subject = stateful_set(1, created=LATER, **CLAIMS)
    former = pod(0, created=SINCE)
    seen = replicas_of(subject, former, claims=(claim("data-web-0"),))
    assert plan_sync(seen, NOW) == Plan(replaced=(former,))
    assert _numbers(seen) == (1, 1, 0, 0)
    assert _numbers(seen, former) == (1, 1, 0, 0)
    left = stateful_set(1, updateStrategy={"type": "OnDelete"}, **CLAIMS)
    assert steps(replace(seen, stateful_set=left)) == []
    partition = stateful_set(1, updateStrategy=rolling(1), **CLAIMS)
    assert steps(replace(seen, stateful_set=partition)) == []


def test_a_pod_of_the_set_that_lacks_a_claim_stays() -> None:
    """A webhook has removed the volume, and would remove it from the next pod, too.

    Upstream tries to give it the volume, which the API server refuses.
    """
    subject = stateful_set(1, created=SINCE, **CLAIMS)
    seen = replicas_of(subject, pod(0, created=LATER), claims=(claim("data-web-0"),))
    assert steps(seen) == []
    assert _numbers(seen) == (1, 1, 1, 1)


def test_claims_that_a_pending_pod_does_not_use_are_not_created_for_it() -> None:
    """A quota that refuses them must not stop the other pods."""
    templates = [claim_template(), claim_template("wal")]
    subject = stateful_set(1, created=LATER, volumeClaimTemplates=templates)
    former = pod(0, phase="Pending", ready=False, claims=("data-web-0",))
    leaving = claim("wal-web-0", deletionTimestamp=SINCE)
    assert (
        steps(replicas_of(subject, former, claims=(claim("data-web-0"), leaving))) == []
    )
    (work,) = _works(replicas_of(subject, former))
    assert [each.metadata.name for each in work.claims.missing] == ["data-web-0"]


def test_a_broken_pod_with_the_claims_of_an_earlier_set_is_replaced() -> None:
    """Its revision is neither the current nor the update revision."""
    subject = stateful_set(2, created=LATER, **CLAIMS)
    former = [pod(0), pod(1, waiting="CrashLoopBackOff", since="2025-12-31T00:00:00Z")]
    assert steps(replicas_of(subject, *former)) == ["replace web-1"]
    starting = [pod(0), pod(1, ready=False)]
    assert steps(replicas_of(subject, *starting)) == []


def _numbers(seen: Replicas, *replaced: Pod) -> tuple[int, int, int, int]:
    """Return the replicas, ready, current and updated replicas of the status."""
    status = seen.status(NOW, replaced)
    return (
        status.replicas,
        status.ready_replicas,
        status.current_replicas,
        status.updated_replicas,
    )


def test_owners_follow_a_changed_policy() -> None:
    """For pods that run, and for condemned ones before they are deleted."""
    policy = {"whenDeleted": "Delete", "whenScaled": "Delete"}
    subject = stateful_set(1, **CLAIMS, persistentVolumeClaimRetentionPolicy=policy)
    claims = (claim("data-web-0"), claim("data-web-1"))
    pods = [pod(each, claims=(f"data-web-{each}",)) for each in (0, 1)]
    assert steps(replicas_of(subject, *pods, claims=claims)) == [
        "update web-0",
        "owners for web-1",
        "delete web-1",
    ]
    owned = (
        claim("data-web-0", owner("StatefulSet", "web")),
        claim("data-web-1", owner("Pod", "web-1")),
    )
    assert steps(replicas_of(subject, *pods, claims=owned)) == ["delete web-1"]


GATE = Settings(max_unavailable=True)
AS_UPSTREAM = Settings(replaces_stuck_pods=False, max_unavailable=True)


BROKEN: dict[str, Any] = {
    "waiting": "CrashLoopBackOff",
    "since": "2025-12-31T23:51:00Z",  # ten minutes before
}


@pytest.mark.parametrize(
    ("value", "replicas", "allowed"),
    [(None, 4, 1), (2, 4, 2), ("50%", 5, 2), ("10%", 4, 1), ("100%", 4, 4)],
)
def test_a_percentage_is_rounded_down_to_one_at_least(
    value: Any, replicas: int, allowed: int
) -> None:
    """As upstream's getStatefulSetMaxUnavailable."""
    given = {} if value is None else {"maxUnavailable": value}
    subject = stateful_set(replicas, updateStrategy=rolling(**given))
    assert allowed_unavailable(replicas_of(subject)) == allowed


@pytest.mark.parametrize(
    ("pods", "settings", "expected"),
    [
        ([old(0), old(1), old(2), old(3)], GATE, ["replace web-3", "replace web-2"]),
        ([old(0), old(1), old(2), pod(3, ready=False)], GATE, ["replace web-2"]),
        ([old(0), old(1), pod(2, ready=False), pod(3, ready=False)], GATE, []),
        (
            [old(0, **BROKEN), old(1, **BROKEN), old(2), old(3)],
            GATE,
            ["replace web-1", "replace web-0"],
        ),
        ([old(0, ready=False), old(1, ready=False), old(2), old(3)], GATE, []),
        ([old(0, **BROKEN), old(1, **BROKEN), old(2), old(3)], AS_UPSTREAM, []),
        (
            [old(0, ready=False), old(1, ready=False), old(2), old(3)],
            AS_UPSTREAM,
            [],
        ),
        (
            [old(0, ready=False), old(1), old(2), old(3)],
            AS_UPSTREAM,
            ["replace web-3"],
        ),
    ],
)
def test_the_gate_allows_several_pods_to_be_unavailable(
    pods: list[Pod], settings: Settings, expected: list[str]
) -> None:
    """Old pods that are broken need no budget here."""
    strategy = rolling(maxUnavailable=2)
    subject = stateful_set(4, updateStrategy=strategy, **PARALLEL)
    seen = replicas_of(subject, *pods, revisions=UPDATING, settings=settings)
    assert steps(seen) == expected


def test_without_the_gate_it_is_one_at_a_time() -> None:
    """The field maxUnavailable has no effect."""
    subject = stateful_set(3, updateStrategy=rolling(maxUnavailable=2), **PARALLEL)
    pods = [old(0), old(1), old(2)]
    assert steps(replicas_of(subject, *pods, revisions=UPDATING)) == ["replace web-2"]


def test_the_partition_holds_for_several_pods_too() -> None:
    """Nothing below it is replaced."""
    subject = stateful_set(3, updateStrategy=rolling(2, maxUnavailable=3))
    pods = [old(0), old(1), old(2)]
    seen = replicas_of(subject, *pods, revisions=UPDATING, settings=GATE)
    assert steps(seen) == ["replace web-2"]
