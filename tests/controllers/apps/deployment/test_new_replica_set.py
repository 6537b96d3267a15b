"""Steps that need a response: creating a replica set, and rolling back."""

import msgspec
import pytest
from msgspec.structs import replace

from controller_manager.api.apps.v1 import Deployment, DeploymentStatus, ReplicaSet
from controller_manager.control.decision import Decision, Step
from controller_manager.controllers.apps.deployment.actions import (
    CountCollision,
    CreateReplicaSet,
    PatchReplicaSet,
    ReadDeployment,
    RecordEvent,
    WriteFailure,
    normal,
    warning,
)
from controller_manager.controllers.apps.deployment.decide import decide
from controller_manager.controllers.apps.deployment.new_replica_set import (
    new_replica_set,
)
from controller_manager.controllers.apps.deployment.view import ExistingUsed
from controller_manager.runtime.outcome import Requeue
from tests.controllers.apps.deployment.cases import (
    EARLIER,
    REVISION,
    SIZES,
    of_deployment,
    of_replica_set,
    progressing,
    sized,
    web,
)
from tests.controllers.apps.deployment.model import (
    FAILED,
    NOW,
    TAKEN,
    Cluster,
    claimed_view,
    play,
)
from tests.controllers.builders import replica_set


def created(subject: Deployment, size: int, revision: int = 1) -> ReplicaSet:
    return new_replica_set(subject, size, {REVISION: str(revision), **SIZES})


def test_the_new_replica_set_is_created_with_the_size_that_max_surge_allows() -> None:
    """Five pods at most, of which the old replica set has four."""
    old = sized("o", 4, 4, image="app:v0", revision=1)
    subject, view = web(), claimed_view(Cluster(web(), (old,)))
    candidate = created(subject, 1, revision=2)
    name = candidate.metadata.name
    event = normal("ScalingReplicaSet", f"Scaled up replica set {name} from 0 to 1")
    assert decide(view, NOW) == Step((CreateReplicaSet(subject, candidate, event),))
    assert play(Cluster(subject, (old,))).decision.actions == ()


def test_a_name_that_is_taken_is_counted_as_a_collision() -> None:
    """The next sync uses another name."""
    subject = web(status=DeploymentStatus(collision_count=1))
    counted = msgspec.structs.replace(
        subject, status=DeploymentStatus(collision_count=2)
    )
    assert play(Cluster(subject, to_creation="a stranger's")).decision == Decision(
        (CountCollision(counted),),
        reasons=(of_deployment("a free name for the new replica set"),),
        retry=TAKEN,
    )


def test_an_existing_replica_set_of_the_deployment_is_used() -> None:
    """It was created by a request whose response was lost; this sync only reports."""
    played = play(Cluster(web(), to_creation="ours"))
    assert [type(action).__name__ for action in played.actions] == [
        "CreateReplicaSet",
        "UseExistingReplicaSet",
    ]
    assert played.decision.retry is None
    assert len(played.cluster.replica_sets) == 1


def test_a_namespace_that_is_being_deleted_is_no_error() -> None:
    """The sync ends with a report."""
    decision = play(Cluster(web(), to_creation="terminating")).decision
    assert decision.actions == ()
    assert decision.retry is None
    assert decision.reasons == (
        of_deployment("its namespace to be deleted"),
        of_deployment("a new replica set"),
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
    told = WriteFailure(msgspec.structs.replace(subject, status=status))
    waiting_for = "the new replica set to be created: etcdserver: no leader"
    assert play(Cluster(subject, to_creation="failed")).decision == Decision(
        (
            RecordEvent(warning("ReplicaSetCreateError", message)),
            *([told] if deadline else []),
        ),
        reasons=(of_deployment(waiting_for),),
        retry=FAILED,
    )


def test_a_rollback_reads_the_deployment_as_stored_and_waits_if_it_changed() -> None:
    """A change that the cache does not show yet must not be overwritten."""
    asked = {"annotations": {"deprecated.deployment.rollback.to": "1"}}
    subject = web(metadata=asked)
    old = sized("o", 4, 4, image="app:v0", revision=1)
    new = sized("newest", 0, revision=2)
    played = play(Cluster(subject, (old, new), changes_meanwhile=True))
    assert played.actions == [ReadDeployment(subject)]
    assert played.decision == Decision(
        reasons=(of_deployment("the cache to show the last change of the deployment"),),
        retry=Requeue(1.0, "the deployment has just changed"),
    )


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
    assert played.decision.reasons == (
        of_deployment("the deployment to be rolled out after this write"),
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
    existing = replica_set("newest", 2, 2, desired=2, maximum=3, revision=2)
    cluster = Cluster(web(), (old, existing))
    resizing = decide(claimed_view(cluster), NOW)
    assert [type(action) for action in resizing.actions] == [PatchReplicaSet]
    used = decide(replace(claimed_view(cluster), creation=ExistingUsed()), NOW)
    assert used.actions == ()
    assert used.reasons == (of_replica_set("newest", "2 new pods to be created"),)


def test_a_replica_set_is_patched_once_in_a_sync() -> None:
    """A webhook may revert the patch."""
    new = sized("newest", 4, 4)
    view = claimed_view(Cluster(web(), (new,)))
    assert isinstance(decide(view, NOW), Step)
    patched = decide(replace(view, patched=frozenset({"newest"})), NOW)
    assert isinstance(patched, Decision)
    assert patched.actions == ()
