"""The decisions of the deployment controller, one by one."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from controller_manager.api.apps.v1 import DeploymentStatus
from controller_manager.api.selectors import Selector
from controller_manager.control.decision import Decision, Step
from controller_manager.controllers.apps.deployment.actions import (
    ClaimReplicaSets,
    CreateReplicaSet,
    DeleteReplicaSet,
    PatchReplicaSet,
    RecordEvent,
    RereadReplicaSets,
    StatusReport,
    normal,
    warning,
)
from controller_manager.controllers.apps.deployment.decide import decide
from controller_manager.runtime.outcome import Requeue
from tests.controllers.apps.deployment.cases import (
    EARLIER,
    RECREATE,
    REVISION,
    SIZES,
    UNUSABLE,
    complete,
    of_deployment,
    of_replica_set,
    progressing,
    reported,
    sized,
    web,
)
from tests.controllers.apps.deployment.model import (
    NOW,
    Cluster,
    claimed_view,
    first_view,
    play,
)
from tests.controllers.builders import pod, replica_set

# Before the replica sets are known


def test_a_sync_begins_with_claiming() -> None:
    """By the selector, compiled."""
    selector = Selector(exact=(("app", "web"),))
    assert decide(first_view(Cluster(web())), NOW) == Step(
        (ClaimReplicaSets(selector),)
    )


@pytest.mark.parametrize(
    ("selector", "reason", "message"),
    [
        (
            {"matchExpressions": [{"key": "app", "operator": "Like"}]},
            "InvalidSelector",
            f"{UNUSABLE}'Like' is not a valid label selector operator",
        ),
        (
            {"matchLabels": {"app": "api"}},
            "InvalidTemplate",
            f"{UNUSABLE}the selector does not match the labels of the pod template",
        ),
    ],
)
def test_a_selector_that_cannot_be_used_gives_a_warning(
    selector: dict[str, Any], reason: str, message: str
) -> None:
    """And nothing else."""
    assert decide(first_view(Cluster(web(selector=selector))), NOW) == Decision(
        (RecordEvent(warning(reason, message)),),
        reasons=(of_deployment(f"its spec to be corrected: {message}"),),
    )


@pytest.mark.parametrize("observed", [0, 1])
def test_selecting_all_pods_is_refused_and_reported_once(observed: int) -> None:
    """The generation counts as observed."""
    subject = web(selector={}, status=DeploymentStatus(observed_generation=observed))
    message = "This deployment is selecting all pods. A non-empty selector is required."
    noted = msgspec.structs.replace(
        subject, status=DeploymentStatus(observed_generation=1)
    )
    assert decide(first_view(Cluster(subject)), NOW) == Decision(
        (RecordEvent(warning("SelectingAll", message)),),
        None if observed else StatusReport(noted, updates_progress=False),
        (of_deployment(f"its spec to be corrected: {message}"),),
    )


# Before the strategy


def test_a_deployment_that_is_being_deleted_only_reports() -> None:
    """It neither creates nor resizes."""
    subject = web(metadata={"deletion_timestamp": EARLIER})
    decision = play(Cluster(subject, (sized("o", 1, 1),))).decision
    since = datetime(2026, 1, 1, 11, 59, 30, tzinfo=UTC)
    assert decision.actions == ()
    assert decision.reasons == (of_deployment("the deployment to be gone", since),)
    assert reported(decision) == {
        "observedGeneration": 1,
        "replicas": 1,
        "updatedReplicas": 1,
        "readyReplicas": 1,
        "availableReplicas": 1,
    }


@pytest.mark.parametrize(
    ("counted", "expected"),
    [
        ([], 0),
        ([(1, 2), (1, 0)], 2),
        ([(1, 2), (1, None)], None),
        ([(1, None)], None),
        ([(0, None)], 0),
        ([(1, 2), (0, None)], 2),
        ([(0, None), (1, None)], None),
        ([(0, 3)], 3),
    ],
)
def test_terminating_pods_are_counted_if_each_synced_replica_set_counts_them(
    counted: list[tuple[int, int | None]], expected: int | None
) -> None:
    """A replica set that an old manager has synced has no number.

    Each pair has the generation that was synced last, and the number. A replica set
    that was never synced has no pods.
    """
    sets = tuple(
        replace(
            each,
            status=replace(
                each.status, observed_generation=generation, terminating_replicas=number
            ),
        )
        for index, (generation, number) in enumerate(counted)
        for each in (sized(f"o{index}", 1, 1),)
    )
    subject = web(metadata={"deletion_timestamp": EARLIER})
    report = reported(play(Cluster(subject, sets)).decision)
    assert report.get("terminatingReplicas") == expected


def test_a_template_that_only_lacks_a_field_is_read_again_once() -> None:
    """An API server that was upgraded may show a default that the cache lacks."""
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {
            "containers": [{"name": "c", "image": "app:v1"}],
            "restartPolicy": "Always",
        },
    }
    cluster = Cluster(web(template=template), (sized("o", 4, 4),))
    assert decide(claimed_view(cluster), NOW) == Decision(
        (RereadReplicaSets(cluster.replica_sets),),
        reasons=(of_deployment("the cache to show the templates of the API server"),),
        retry=Requeue(0.0, "the cache may have templates of another API server"),
    )
    again = decide(claimed_view(cluster, is_reread=True), NOW)
    assert [type(action) for action in again.actions] == [CreateReplicaSet]


def test_an_unknown_strategy_gives_a_warning() -> None:
    """It names the two valid strategies."""
    message = (
        "This deployment cannot be processed: unexpected deployment strategy type: "
        "'Odd'; use Recreate or RollingUpdate"
    )
    cluster = Cluster(web(strategy={"type": "Odd"}))
    assert decide(claimed_view(cluster), NOW) == Decision(
        (RecordEvent(warning("InvalidStrategy", message)),),
        reasons=(of_deployment(f"its spec to be corrected: {message}"),),
    )


def test_the_new_replica_set_gets_its_revision_first() -> None:
    """With the inherited annotations, and with minReadySeconds."""
    subject = web(metadata={"annotations": {"team": "a"}}, minReadySeconds=5)
    old, new = sized("o", 1, image="app:v0", revision=2), sized("newest", 3)
    patch = {
        "metadata": {"annotations": {"team": "a", REVISION: "3"}},
        "spec": {"minReadySeconds": 5},
    }
    assert decide(claimed_view(Cluster(subject, (old, new))), NOW) == Step(
        (PatchReplicaSet(new, patch, wanted="current annotations"),)
    )


def test_a_new_size_is_applied_before_the_rollout_continues() -> None:
    """Every replica set with pods gets its share and the annotations."""
    new = replica_set("newest", 2, desired=2, maximum=3, revision=1)
    patch = {"metadata": {"annotations": SIZES}, "spec": {"replicas": 4}}
    message = "Scaled up replica set newest from 2 to 4"
    event = normal("ScalingReplicaSet", message)
    assert decide(claimed_view(Cluster(web(), (new,))), NOW) == Decision(
        (PatchReplicaSet(new, patch, "size 4", event),),
        reasons=(of_replica_set("newest", "size 4 of the replica set"),),
    )


def test_a_paused_deployment_cleans_up_and_reports() -> None:
    """Old replica sets beyond the limit are deleted; nothing is created."""
    subject = web(paused=True, revisionHistoryLimit=0)
    empty = sized("o", 0, image="app:v0", revision=1)
    old = sized("oo", 4, 4, image="app:older", revision=2)
    decision = play(Cluster(subject, (empty, old))).decision
    assert decision.actions == (DeleteReplicaSet(empty),)
    assert decision.reasons == (of_deployment("the end of the pause"),)


# The strategies


def test_a_complete_rollout_only_reports_and_cleans_up() -> None:
    """It waits for nothing."""
    subject = web(status=complete(), revisionHistoryLimit=0)
    old = sized("o", 0, image="app:v0", revision=1)
    new = sized("newest", 4, 4, revision=2)
    decision = play(Cluster(subject, (old, new))).decision
    assert decision.actions == (DeleteReplicaSet(old),)
    assert decision.reasons == ()


def test_a_waiting_rollout_has_reasons_and_is_synced_again_at_the_deadline() -> None:
    """One second after the deadline."""
    status = progressing("ReplicaSetUpdated")
    subject = web(status=status, progressDeadlineSeconds=60)
    old = sized("o", 3, 3, image="app:v0", revision=1)
    new = sized("newest", 2, revision=2, current=1)
    decision = play(Cluster(subject, (old, new))).decision
    assert decision.actions == ()
    assert decision.reasons == (
        of_replica_set("newest", "3 new pods to be created", NOW),
        of_replica_set("newest", "1 new pod to be available", NOW),
        of_replica_set("o", "3 old pods to be gone", NOW),
    )
    assert decision.requeue_after == 61.0


@pytest.mark.parametrize(
    ("old_size", "reported_size", "pods", "patched"),
    [
        (4, 4, 0, "o"),
        (0, 2, 0, None),
        (0, 0, 1, None),
        (0, 0, 0, "newest"),
    ],
)
def test_recreate_scales_down_then_waits_then_scales_up(
    old_size: int, reported_size: int, pods: int, patched: str | None
) -> None:
    """Each step in its own sync."""
    old = sized("o", old_size, image="app:v0", revision=1, current=reported_size)
    new = sized("newest", 0, revision=2)
    cluster = Cluster(web(strategy=RECREATE), (old, new))
    view = replace(claimed_view(cluster), old_pods=(pod(),) * pods)
    view = replace(view, patched=frozenset({"newest"}))
    decision = decide(view, NOW)
    assert [
        action.replica_set.metadata.name
        for action in decision.actions
        if isinstance(action, PatchReplicaSet)
    ] == ([patched] if patched else [])
    waits = of_deployment("the last old pods to end") in decision.reasons
    assert waits is (patched is None)
