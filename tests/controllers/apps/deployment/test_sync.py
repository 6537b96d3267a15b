"""The syncs of the deployment controller, one by one: what each writes and awaits."""

import dataclasses
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from controller_manager.api.apps.v1 import Deployment, DeploymentStatus, ReplicaSet
from controller_manager.controllers.apps.deployment.rollout import new_replica_set
from controller_manager.runtime.outcome import Done, Requeue
from tests.controllers.alone import NOW
from tests.controllers.apps.deployment.model import (
    EARLIER,
    FAILED,
    RECREATE,
    REREAD,
    REVISION,
    ROLLBACK,
    SINCE_EARLIER,
    SIZES,
    TAKEN,
    Cluster,
    complete,
    condition_json,
    new,
    of_deployment,
    of_replica_set,
    old,
    play,
    sized,
    status_of,
    web,
)
from tests.controllers.builders import pod, replica_set

UNUSABLE = "This deployment cannot be processed: "
ODD = "unexpected deployment strategy type: 'Odd'; use Recreate or RollingUpdate"
NOON = "2026-01-01T12:00:00Z"
LIKE = {"matchExpressions": [{"key": "app", "operator": "Like"}]}


@pytest.mark.parametrize(
    ("spec", "reason", "message"),
    [
        (
            {"selector": LIKE},
            "InvalidSelector",
            f"{UNUSABLE}'Like' is not a valid label selector operator",
        ),
        (
            {"selector": {"matchLabels": {"app": "api"}}},
            "InvalidTemplate",
            f"{UNUSABLE}the selector does not match the labels of the pod template",
        ),
        ({"strategy": {"type": "Odd"}}, "InvalidStrategy", f"{UNUSABLE}{ODD}"),
    ],
)
def test_a_bad_spec_warns(spec: dict[str, Any], reason: str, message: str) -> None:
    played = play(Cluster(web(**spec)))
    assert (played.events, played.writes) == ([("Warning", reason, message)], [])
    waits = of_deployment(f"its spec to be corrected: {message}")
    assert played.outcome == Done(reasons=(waits,))


@pytest.mark.parametrize("observed", [0, 1])
def test_selecting_all_pods_is_refused_and_reported_once(observed: int) -> None:
    subject = web(selector={}, status=DeploymentStatus(observed_generation=observed))
    message = "This deployment is selecting all pods. A non-empty selector is required."
    noted = replace(subject, status=DeploymentStatus(observed_generation=1))
    played = play(Cluster(subject))
    assert played.events == [("Warning", "SelectingAll", message)]
    assert played.writes == ([] if observed else [("status", "web", noted)])
    waits = of_deployment(f"its spec to be corrected: {message}")
    assert played.outcome == Done(reasons=(waits,))


def test_a_deployment_that_is_being_deleted_only_reports() -> None:
    subject = web(metadata={"deletion_timestamp": EARLIER})
    played = play(Cluster(subject, (sized("o", 1, 1),)))
    assert played.others == []
    waits = of_deployment("the deployment to be gone", SINCE_EARLIER)
    assert played.reasons == (waits,)
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
    sets = []
    for index, (generation, number) in enumerate(counted):
        each = sized(f"o{index}", 1, 1)
        numbers = {"observed_generation": generation, "terminating_replicas": number}
        sets.append(replace(each, status=replace(each.status, **numbers)))
    subject = web(metadata={"deletion_timestamp": EARLIER})
    status = play(Cluster(subject, tuple(sets))).status
    assert status.get("terminatingReplicas") == expected


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


def test_the_new_replica_set_gets_its_revision_first() -> None:
    subject = web(metadata={"annotations": {"team": "a"}}, minReadySeconds=5)
    patch = {
        "metadata": {"annotations": {"team": "a", REVISION: "3"}},
        "spec": {"minReadySeconds": 5},
    }
    played = play(Cluster(subject, (old(1, revision=2), sized("newest", 3))))
    assert played.writes[0] == ("patch", "newest", patch)


def test_a_new_size_is_applied_before_the_rollout_continues() -> None:
    subject = replica_set("newest", 2, desired=2, maximum=3, revision=1)
    patch = {"metadata": {"annotations": SIZES}, "spec": {"replicas": 4}}
    message = "Scaled up replica set newest from 2 to 4"
    played = play(Cluster(web(), (subject,)))
    assert played.writes == [("patch", "newest", patch)]
    assert played.events == [("Normal", "ScalingReplicaSet", message)]
    waits = of_replica_set("newest", "size 4 of the replica set")
    assert played.outcome == Done(reasons=(waits,))


def test_old_replica_sets_beyond_the_limit_are_deleted() -> None:
    """A complete rollout only reports otherwise, as a pause, which creates nothing."""
    subject = web(paused=True, revisionHistoryLimit=0)
    larger = sized("oo", 4, 4, image="app:older", revision=2)
    paused = play(Cluster(subject, (old(0), larger)))
    assert paused.reasons == (of_deployment("the end of the pause"),)
    subject = web(status=complete(), revisionHistoryLimit=0)
    finished = play(Cluster(subject, (old(0), new(4, 4))))
    assert finished.outcome == Done()
    assert paused.others == finished.others == [("delete", "o", None)]


def test_a_waiting_rollout_has_reasons_and_is_synced_again_at_the_deadline() -> None:
    status = status_of(condition_json("ReplicaSetUpdated"))
    subject = web(status=status, progressDeadlineSeconds=60)
    played = play(Cluster(subject, (old(3, 3), new(2, 0, 1))))
    assert played.others == []
    waits = (
        of_replica_set("newest", "3 new pods to be created", NOW),
        of_replica_set("newest", "1 new pod to be available", NOW),
        of_replica_set("o", "3 old pods to be gone", NOW),
    )
    assert played.outcome == Done(61.0, waits)


@pytest.mark.parametrize(
    ("old_size", "reported_size", "pods", "patched"),
    [(4, 4, 0, ["o"]), (0, 2, 0, []), (0, 0, 1, []), (0, 0, 0, ["newest"])],
)
def test_recreate_scales_down_then_waits_then_scales_up(
    old_size: int, reported_size: int, pods: int, patched: list[str]
) -> None:
    sets = (old(old_size, current=reported_size), new(0))
    played = play(Cluster(web(strategy=RECREATE), sets, (pod(),) * pods))
    assert [(verb, name) for verb, name, _ in played.others] == [
        ("patch", name) for name in patched
    ]
    waits = of_deployment("the last old pods to end") in played.reasons
    assert waits is not bool(patched)


# The new replica set.


def created(subject: Deployment, size: int, revision: int = 1) -> ReplicaSet:
    return new_replica_set(subject, size, {REVISION: str(revision), **SIZES})


def test_the_new_replica_set_is_created_with_the_size_that_max_surge_allows() -> None:
    """Five pods at most, of which the old replica set has four."""
    candidate = created(web(), 1, revision=2)
    name = candidate.metadata.name
    message = f"Scaled up replica set {name} from 0 to 1"
    played = play(Cluster(web(), (old(4, 4),)))
    assert played.others == [("create", name, candidate)]
    assert played.events == [("Normal", "ScalingReplicaSet", message)]


def test_a_name_that_is_taken_is_counted_as_a_collision() -> None:
    subject = web(status=DeploymentStatus(collision_count=1))
    counted = replace(subject, status=DeploymentStatus(collision_count=2))
    played = play(Cluster(subject, to_creation="a stranger's"))
    assert played.writes[1:] == [("status", "web", counted)]
    assert (played.events, played.error) == ([], TAKEN)


@pytest.mark.parametrize("sets", [(), (old(0),)])
def test_the_replica_set_that_is_there_is_used(sets: tuple[ReplicaSet, ...]) -> None:
    """It was created by a request whose response was lost.

    This sync only reports: the one that created it has chosen its size of two.
    """
    played = play(Cluster(web(), sets, to_creation="ours"))
    existing = played.cluster.replica_sets[-1]
    assert [verb for verb, _, _ in played.writes] == ["create", "status"]
    assert existing.spec.replicas == 2
    assert played.awaited == [("default/web", existing.metadata.name)]
    assert isinstance(played.outcome, Done)


def test_a_namespace_that_is_being_deleted_is_no_error() -> None:
    played = play(Cluster(web(), to_creation="terminating"))
    assert [verb for verb, _, _ in played.writes] == ["create", "status"]
    assert played.events == []
    waits = map(of_deployment, ("its namespace to be deleted", "a new replica set"))
    assert played.outcome == Done(reasons=tuple(waits))


@pytest.mark.parametrize("deadline", [None, 60])
def test_a_creation_that_fails_is_reported_and_retried(deadline: int | None) -> None:
    subject = web(progressDeadlineSeconds=deadline)
    name, reason = created(subject, 4).metadata.name, "ReplicaSetCreateError"
    message = f'Failed to create new replica set "{name}": etcdserver: no leader'
    told = condition_json(reason, message, "False", updated=NOON, changed=NOON)
    written = ("status", "web", replace(subject, status=status_of(told)))
    played = play(Cluster(subject, to_creation="failed"))
    assert played.events == [("Warning", reason, message)]
    assert played.writes[1:] == ([written] if deadline else [])
    assert played.error is FAILED


def test_a_created_replica_set_is_reported_with_its_revision() -> None:
    numbers = {"replicas": 4, "readyReplicas": 4, "availableReplicas": 4}
    status = status_of(condition_json("NewReplicaSetAvailable"), **numbers)
    subject = web(status=status, progressDeadlineSeconds=60)
    after = play(Cluster(subject, (old(4, 4, revision=6),))).cluster.deployment
    message = f'Created new replica set "{created(subject, 1).metadata.name}"'
    available = condition_json(
        "MinimumReplicasAvailable",
        "Deployment has minimum availability.",
        kind="Available",
        updated=NOON,
        changed=NOON,
    )
    assert after.metadata.annotations == {REVISION: "7"}
    assert after.status == status_of(
        condition_json("NewReplicaSetCreated", message, updated=NOON),
        available,
        observedGeneration=1,
        unavailableReplicas=1,
        **numbers,
    )


def test_a_replica_set_is_patched_once_in_a_sync() -> None:
    """A webhook may revert the patch."""
    played = play(Cluster(web(), (sized("newest", 4, 4),), reverts_patches=True))
    assert [verb for verb, _, _ in played.writes] == ["patch", "status"]


# The rollback.


def asking(text: str) -> Cluster:
    """Return a rollout whose deployment asks for a revision."""
    asked = {"annotations": {ROLLBACK: text, REVISION: "2"}}
    first = old(4, 4)
    annotations = {**(first.metadata.annotations or {}), "team": "a"}
    metadata = replace(first.metadata, annotations=annotations)
    return Cluster(web(metadata=asked), (replace(first, metadata=metadata), new(0)))


def test_a_rollback_reads_the_deployment_as_stored_and_waits_if_it_changed() -> None:
    """A change that the cache does not show yet must not be overwritten."""
    played = play(dataclasses.replace(asking("1"), changes_meanwhile=True))
    assert (played.writes, played.events) == ([], [])
    assert played.outcome == Requeue(1.0, "the deployment has just changed")


MISSING = "DeploymentRollbackRevisionNotFound"
NO_REVISION = "Unable to find the revision to rollback to."
SAME = 'The rollback revision contains the same template as current deployment "web"'
DONE = 'Rolled back deployment "web" to revision 1'


@pytest.mark.parametrize(
    ("asked", "image", "event"),
    [
        ("1", "v0", ("DeploymentRollback", DONE)),
        ("0", "v0", ("DeploymentRollback", DONE)),
        ("2", "v1", ("DeploymentRollbackTemplateUnchanged", SAME)),
        ("9", "v1", (MISSING, NO_REVISION)),
        ("-1", "v1", (MISSING, NO_REVISION)),
        ("+7", "v1", (MISSING, NO_REVISION)),
    ],
)
def test_a_rollback_restores(asked: str, image: str, event: tuple[str, str]) -> None:
    """Or says why not. It removes the annotation that requested it, not others."""
    played = play(asking(asked))
    after = played.cluster.deployment
    restored = {"team": "a"} if image == "v0" else {}
    assert after.metadata.annotations == {REVISION: "2", **restored}
    assert msgspec.json.decode(after.spec.template.spec) == {
        "containers": [{"name": "c", "image": f"app:{image}"}]
    }
    kind = "Warning" if image == "v1" else "Normal"
    assert played.events == [(kind, *event)]
    assert [verb for verb, _, _ in played.writes] == ["update"]
    waits = of_deployment("the deployment to be rolled out after this write")
    assert played.outcome == Done(reasons=(waits,))


def test_a_rollback_to_what_is_no_number_is_ignored() -> None:
    assert "update" not in [verb for verb, _, _ in play(asking("first")).writes]


def test_without_an_older_revision_there_is_no_last_one() -> None:
    only = (sized("newest", 4, 4, revision=1),)
    played = play(dataclasses.replace(asking("0"), replica_sets=only))
    assert played.events == [("Warning", MISSING, "Unable to find last revision.")]


# The reasons why a rollout waits.


@pytest.mark.parametrize(
    ("replica_sets", "reasons"),
    [
        ((old(0), new(4, 4, 4)), []),
        (
            (old(0), new(4, 1, 3)),
            ["newest: 1 new pod to be created", "newest: 2 new pods to be available"],
        ),
        ((old(0), new(4, 2, 4)), ["newest: 2 new pods to be available"]),
        ((old(0), new(4, 4, 6)), ["newest: 2 surplus pods to be gone"]),
        ((old(0, current=1), new(4, 4, 4)), ["o: 1 old pod to be gone"]),
        (
            (old(0, 1), new(4, 4, 4)),
            ["web: replica sets to report the pods that they have"],
        ),
    ],
)
def test_each_reason_names_its_object(
    replica_sets: tuple[ReplicaSet, ...], reasons: list[str]
) -> None:
    """There are no reasons once all pods are new and available."""
    found = play(Cluster(web(status=complete()), replica_sets)).reasons
    assert [f"{each.object.name}: {each.waiting_for}" for each in found] == reasons


def test_a_wait_counts_from_the_last_progress() -> None:
    progress = condition_json("ReplicaSetUpdated")
    status = status_of(progress, replicas=4, updatedReplicas=4)
    subject = web(status=status, progressDeadlineSeconds=60)
    waits = of_replica_set("newest", "4 new pods to be available", SINCE_EARLIER)
    assert play(Cluster(subject, (old(0), new(4, 0, 4)))).outcome == Done(
        31.0, (waits,)
    )


def test_a_refused_creation_of_pods_is_the_first_reason() -> None:
    refused = condition_json("FailedCreate", "exceeded quota", kind="ReplicaFailure")
    failing = new(4, 0, 0)
    given = {**msgspec.to_builtins(failing.status), "conditions": [refused]}
    failing = replace(failing, status=msgspec.convert(given, type(failing.status)))
    assert play(Cluster(web(), (old(0), failing))).reasons == (
        of_deployment("the end of FailedCreate: exceeded quota", SINCE_EARLIER),
        of_replica_set("newest", "4 new pods to be created"),
    )
