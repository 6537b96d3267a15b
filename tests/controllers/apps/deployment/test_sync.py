"""The syncs of the deployment controller, one by one: what each writes and awaits."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from controller_manager.api.apps.v1 import (
    Deployment,
    DeploymentStatus,
    ReplicaSet,
    ReplicaSetStatus,
)
from controller_manager.controllers.apps.deployment.rollout import new_replica_set
from controller_manager.runtime.outcome import Done, Reason, Requeue
from tests.controllers.alone import NOW
from tests.controllers.apps.deployment.builders import (
    EARLIER,
    RECREATE,
    REVISION,
    SIZES,
    UNUSABLE,
    complete,
    of_deployment,
    of_replica_set,
    progressing,
    sized,
    web,
)
from tests.controllers.apps.deployment.model import (
    FAILED,
    REREAD,
    TAKEN,
    Cluster,
    play,
    sizes_of,
)
from tests.controllers.builders import pod, replica_set

# Before the replica sets are known


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
    played = play(Cluster(web(selector=selector)))
    assert played.events == [("Warning", reason, message)]
    assert played.writes == []
    assert played.outcome == Done(
        reasons=(of_deployment(f"its spec to be corrected: {message}"),)
    )


@pytest.mark.parametrize("observed", [0, 1])
def test_selecting_all_pods_is_refused_and_reported_once(observed: int) -> None:
    """The generation counts as observed."""
    subject = web(selector={}, status=DeploymentStatus(observed_generation=observed))
    message = "This deployment is selecting all pods. A non-empty selector is required."
    noted = replace(subject, status=DeploymentStatus(observed_generation=1))
    played = play(Cluster(subject))
    assert played.events == [("Warning", "SelectingAll", message)]
    assert played.writes == ([] if observed else [("status", "web", noted)])
    assert played.outcome == Done(
        reasons=(of_deployment(f"its spec to be corrected: {message}"),)
    )


# Before the strategy


def test_a_deployment_that_is_being_deleted_only_reports() -> None:
    """It neither creates nor resizes."""
    subject = web(metadata={"deletion_timestamp": EARLIER})
    played = play(Cluster(subject, (sized("o", 1, 1),)))
    since = datetime(2026, 1, 1, 11, 59, 30, tzinfo=UTC)
    assert played.others == []
    assert played.reasons == (of_deployment("the deployment to be gone", since),)
    assert played.status == {
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
    assert play(Cluster(subject, sets)).status.get("terminatingReplicas") == expected


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
    first = play(cluster)
    assert (first.outcome, first.writes, first.events) == (REREAD, [], [])
    again = play(cluster, is_reread=True)
    assert [verb for verb, _, _ in again.others] == ["create"]


def test_an_unknown_strategy_gives_a_warning() -> None:
    """It names the two valid strategies."""
    message = (
        "This deployment cannot be processed: unexpected deployment strategy type: "
        "'Odd'; use Recreate or RollingUpdate"
    )
    cluster = Cluster(web(strategy={"type": "Odd"}))
    played = play(cluster)
    assert played.events == [("Warning", "InvalidStrategy", message)]
    assert played.writes == []
    assert played.outcome == Done(
        reasons=(of_deployment(f"its spec to be corrected: {message}"),)
    )


def test_the_new_replica_set_gets_its_revision_first() -> None:
    """With the inherited annotations, and with minReadySeconds."""
    subject = web(metadata={"annotations": {"team": "a"}}, minReadySeconds=5)
    old, new = sized("o", 1, image="app:v0", revision=2), sized("newest", 3)
    patch = {
        "metadata": {"annotations": {"team": "a", REVISION: "3"}},
        "spec": {"minReadySeconds": 5},
    }
    assert play(Cluster(subject, (old, new))).writes[0] == ("patch", "newest", patch)


def test_a_new_size_is_applied_before_the_rollout_continues() -> None:
    """Every replica set with pods gets its share and the annotations."""
    new = replica_set("newest", 2, desired=2, maximum=3, revision=1)
    patch = {"metadata": {"annotations": SIZES}, "spec": {"replicas": 4}}
    message = "Scaled up replica set newest from 2 to 4"
    played = play(Cluster(web(), (new,)))
    assert played.writes == [("patch", "newest", patch)]
    assert played.events == [("Normal", "ScalingReplicaSet", message)]
    assert played.outcome == Done(
        reasons=(of_replica_set("newest", "size 4 of the replica set"),)
    )


def test_a_paused_deployment_cleans_up_and_reports() -> None:
    """Old replica sets beyond the limit are deleted; nothing is created."""
    subject = web(paused=True, revisionHistoryLimit=0)
    empty = sized("o", 0, image="app:v0", revision=1)
    old = sized("oo", 4, 4, image="app:older", revision=2)
    played = play(Cluster(subject, (empty, old)))
    assert played.others == [("delete", "o", None)]
    assert played.reasons == (of_deployment("the end of the pause"),)


# The strategies


def test_a_complete_rollout_only_reports_and_cleans_up() -> None:
    """It waits for nothing."""
    subject = web(status=complete(), revisionHistoryLimit=0)
    old = sized("o", 0, image="app:v0", revision=1)
    new = sized("newest", 4, 4, revision=2)
    played = play(Cluster(subject, (old, new)))
    assert played.others == [("delete", "o", None)]
    assert played.outcome == Done()


def test_a_waiting_rollout_has_reasons_and_is_synced_again_at_the_deadline() -> None:
    """One second after the deadline."""
    status = progressing("ReplicaSetUpdated")
    subject = web(status=status, progressDeadlineSeconds=60)
    old = sized("o", 3, 3, image="app:v0", revision=1)
    new = sized("newest", 2, revision=2, current=1)
    played = play(Cluster(subject, (old, new)))
    assert played.others == []
    assert played.outcome == Done(
        61.0,
        (
            of_replica_set("newest", "3 new pods to be created", NOW),
            of_replica_set("newest", "1 new pod to be available", NOW),
            of_replica_set("o", "3 old pods to be gone", NOW),
        ),
    )


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
    played = play(Cluster(web(strategy=RECREATE), (old, new), (pod(),) * pods))
    assert [(verb, name) for verb, name, _ in played.others] == (
        [("patch", patched)] if patched else []
    )
    waits = of_deployment("the last old pods to end") in played.reasons
    assert waits is (patched is None)


# The new replica set, and the rollback


def created(subject: Deployment, size: int, revision: int = 1) -> ReplicaSet:
    return new_replica_set(subject, size, {REVISION: str(revision), **SIZES})


def test_the_new_replica_set_is_created_with_the_size_that_max_surge_allows() -> None:
    """Five pods at most, of which the old replica set has four."""
    old = sized("o", 4, 4, image="app:v0", revision=1)
    candidate = created(web(), 1, revision=2)
    name = candidate.metadata.name
    message = f"Scaled up replica set {name} from 0 to 1"
    played = play(Cluster(web(), (old,)))
    assert played.others == [("create", name, candidate)]
    assert played.events == [("Normal", "ScalingReplicaSet", message)]


def test_a_name_that_is_taken_is_counted_as_a_collision() -> None:
    """The next sync uses another name."""
    subject = web(status=DeploymentStatus(collision_count=1))
    counted = replace(subject, status=DeploymentStatus(collision_count=2))
    played = play(Cluster(subject, to_creation="a stranger's"))
    assert played.writes[1:] == [("status", "web", counted)]
    assert played.events == []
    assert played.error is TAKEN


def test_an_existing_replica_set_of_the_deployment_is_used() -> None:
    """It was created by a request whose response was lost; this sync only reports."""
    played = play(Cluster(web(), to_creation="ours"))
    (existing,) = played.cluster.replica_sets
    assert [verb for verb, _, _ in played.writes] == ["create", "status"]
    assert played.awaited == [("default/web", existing.metadata.name)]
    assert isinstance(played.outcome, Done)


def test_a_namespace_that_is_being_deleted_is_no_error() -> None:
    """The sync ends with a report."""
    played = play(Cluster(web(), to_creation="terminating"))
    assert [verb for verb, _, _ in played.writes] == ["create", "status"]
    assert played.events == []
    assert played.outcome == Done(
        reasons=(
            of_deployment("its namespace to be deleted"),
            of_deployment("a new replica set"),
        )
    )


@pytest.mark.parametrize("deadline", [None, 60])
def test_a_creation_that_fails_is_reported_and_retried(deadline: int | None) -> None:
    """By an event, and by the condition Progressing if there is a deadline."""
    subject = web(progressDeadlineSeconds=deadline)
    name = created(subject, 4).metadata.name
    message = f'Failed to create new replica set "{name}": etcdserver: no leader'
    condition = {
        "type": "Progressing",
        "status": "False",
        "reason": "ReplicaSetCreateError",
        "message": message,
        "lastUpdateTime": "2026-01-01T12:00:00Z",
        "lastTransitionTime": "2026-01-01T12:00:00Z",
    }
    status = msgspec.convert({"conditions": [condition]}, DeploymentStatus)
    told = ("status", "web", replace(subject, status=status))
    played = play(Cluster(subject, to_creation="failed"))
    assert played.events == [("Warning", "ReplicaSetCreateError", message)]
    assert played.writes[1:] == ([told] if deadline else [])
    assert played.error is FAILED


def test_a_rollback_reads_the_deployment_as_stored_and_waits_if_it_changed() -> None:
    """A change that the cache does not show yet must not be overwritten."""
    asked = {"annotations": {"deprecated.deployment.rollback.to": "1"}}
    subject = web(metadata=asked)
    old = sized("o", 4, 4, image="app:v0", revision=1)
    new = sized("newest", 0, revision=2)
    played = play(Cluster(subject, (old, new), changes_meanwhile=True))
    assert (played.writes, played.events) == ([], [])
    assert played.outcome == Requeue(1.0, "the deployment has just changed")


def test_a_rollback_restores_the_template_of_the_revision() -> None:
    """It removes the annotation that requested it."""
    asked = {"annotations": {"deprecated.deployment.rollback.to": "1"}}
    old = sized("o", 4, 4, image="app:v0", revision=1)
    new = sized("newest", 0, revision=2)
    played = play(Cluster(web(metadata=asked), (old, new)))
    after = played.cluster.deployment
    assert not after.metadata.annotations
    assert msgspec.json.decode(after.spec.template.spec) == {
        "containers": [{"name": "c", "image": "app:v0"}]
    }
    assert played.outcome == Done(
        reasons=(of_deployment("the deployment to be rolled out after this write"),)
    )


def test_a_created_replica_set_is_reported_with_its_revision() -> None:
    """By the condition Progressing, for any former state of it."""
    numbers = {"replicas": 4, "readyReplicas": 4, "availableReplicas": 4}
    before = msgspec.to_builtins(progressing("NewReplicaSetAvailable"))
    subject = web(
        status=msgspec.convert({**before, **numbers}, DeploymentStatus),
        progressDeadlineSeconds=60,
    )
    old = sized("o", 4, 4, image="app:v0", revision=6)
    after = play(Cluster(subject, (old,))).cluster.deployment
    noon = "2026-01-01T12:00:00Z"
    name = created(subject, 1).metadata.name
    progress = {
        "type": "Progressing",
        "status": "True",
        "reason": "NewReplicaSetCreated",
        "message": f'Created new replica set "{name}"',
        "lastUpdateTime": noon,
        "lastTransitionTime": EARLIER,
    }
    availability = {
        "type": "Available",
        "status": "True",
        "reason": "MinimumReplicasAvailable",
        "message": "Deployment has minimum availability.",
        "lastUpdateTime": noon,
        "lastTransitionTime": noon,
    }
    assert after.metadata.annotations == {REVISION: "7"}
    assert msgspec.to_builtins(after.status) == {
        "observedGeneration": 1,
        **numbers,
        "unavailableReplicas": 1,
        "conditions": (progress, availability),
    }


def test_an_existing_replica_set_is_not_resized_in_the_sync_that_finds_it() -> None:
    """The sync that created it has chosen its size; the next sync may change it."""
    old = sized("o", 0, image="app:v0", revision=1)
    played = play(Cluster(web(), (old,), to_creation="ours"))
    assert [verb for verb, _, _ in played.writes] == ["create", "status"]
    assert sizes_of(played.cluster) == 2


def test_a_replica_set_is_patched_once_in_a_sync() -> None:
    """A webhook may revert the patch."""
    new = sized("newest", 4, 4)
    played = play(Cluster(web(), (new,), reverts_patches=True))
    assert [verb for verb, _, _ in played.writes] == ["patch", "status"]


# The reasons why a rollout waits

OLD = sized("o", 0, image="app:v0", revision=1)


def new(replicas: int, available: int, current: int) -> ReplicaSet:
    return sized("newest", replicas, available, revision=2, current=current)


@pytest.mark.parametrize(
    ("replica_sets", "reasons"),
    [
        ((OLD, new(4, 4, 4)), ()),
        (
            (OLD, new(4, 1, 3)),
            (
                "newest: 1 new pod to be created",
                "newest: 2 new pods to be available",
            ),
        ),
        ((OLD, new(4, 2, 4)), ("newest: 2 new pods to be available",)),
        ((OLD, new(4, 4, 6)), ("newest: 2 surplus pods to be gone",)),
        (
            (sized("o", 0, image="app:v0", revision=1, current=1), new(4, 4, 4)),
            ("o: 1 old pod to be gone",),
        ),
        (
            (sized("o", 0, 1, image="app:v0", revision=1), new(4, 4, 4)),
            ("web: replica sets to report the pods that they have",),
        ),
    ],
)
def test_each_reason_names_its_object(
    replica_sets: tuple[ReplicaSet, ...], reasons: tuple[str, ...]
) -> None:
    """There are no reasons once all pods are new and available."""
    found = play(Cluster(web(status=complete()), replica_sets)).reasons
    said = tuple(f"{each.object.name}: {each.waiting_for}" for each in found)
    assert said == reasons


def test_a_wait_counts_from_the_last_progress() -> None:
    """As the progress deadline counts."""
    status = progressing("ReplicaSetUpdated")
    updated = replace(status, replicas=4, updated_replicas=4)
    subject = web(status=updated, progressDeadlineSeconds=60)
    since = datetime(2026, 1, 1, 11, 59, 30, tzinfo=UTC)
    assert play(Cluster(subject, (OLD, new(4, 0, 4)))).outcome == Done(
        31.0, (of_replica_set("newest", "4 new pods to be available", since),)
    )


def test_a_refused_creation_of_pods_is_the_first_reason() -> None:
    """With reason and message of the replica set's condition."""
    condition: dict[str, Any] = {
        "type": "ReplicaFailure",
        "status": "True",
        "reason": "FailedCreate",
        "message": "exceeded quota",
        "lastTransitionTime": EARLIER,
    }
    failing = new(4, 0, 0)
    status = msgspec.convert(
        {**msgspec.to_builtins(failing.status), "conditions": [condition]},
        ReplicaSetStatus,
    )
    failing = replace(failing, status=status)
    expected: tuple[Reason, ...] = (
        of_deployment(
            "the end of FailedCreate: exceeded quota",
            datetime(2026, 1, 1, 11, 59, 30, tzinfo=UTC),
        ),
        of_replica_set("newest", "4 new pods to be created"),
    )
    assert play(Cluster(web(), (OLD, failing))).reasons == expected
