"""An API server as a value: the results of actions, without any waiting."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal, assert_never

import msgspec
from msgspec import structs

from controller_manager.api.apps.v1 import (
    DEPLOYMENTS,
    Deployment,
    ReplicaSet,
)
from controller_manager.api.core.v1 import Pod
from controller_manager.api.meta import Status
from controller_manager.api.owners import controller_reference
from controller_manager.api.workloads import desired_replicas
from controller_manager.client.errors import AlreadyExists, InternalError
from controller_manager.control.decision import Step
from controller_manager.controllers.apps.deployment.actions import (
    Action,
    ClaimReplicaSets,
    CountCollision,
    CreateReplicaSet,
    DeleteReplicaSet,
    DeploymentDecision,
    DeploymentStep,
    PatchReplicaSet,
    ReadDeployment,
    RecordEvent,
    ReplaceDeployment,
    RereadReplicaSets,
    TryReplicaSet,
    UseExistingReplicaSet,
    WriteFailure,
)
from controller_manager.controllers.apps.deployment.decide import decide
from controller_manager.controllers.apps.deployment.view import (
    Created,
    CreationFailed,
    ExistingUsed,
    NamespaceTerminating,
    NameTaken,
    Rollout,
    Unchanged,
    View,
    find_rollout,
)

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)

TAKEN = AlreadyExists(Status(message='replicasets.apps "web-x" already exists'))
FAILED = InternalError(Status(message="etcdserver: no leader"))

ToCreation = Literal["created", "ours", "a stranger's", "terminating", "failed"]
"""The responses of the API server to the creation of a replica set."""


@dataclass(frozen=True)
class Cluster:
    """One deployment, and the other stored objects."""

    deployment: Deployment
    replica_sets: tuple[ReplicaSet, ...] = ()
    pods: tuple[Pod, ...] = ()
    to_creation: ToCreation = "created"
    changes_meanwhile: bool = False
    """True if a user writes the deployment during a sync."""

    def with_replica_set(self, changed: ReplicaSet) -> "Cluster":
        """Return the cluster with this replica set, new or in place of an old one."""
        uid = changed.metadata.uid
        others = (each for each in self.replica_sets if each.metadata.uid != uid)
        return replace(self, replica_sets=(*others, changed))


@dataclass
class Played:
    """The result of one sync."""

    cluster: Cluster
    view: View
    decided: list[DeploymentStep | DeploymentDecision] = field(default_factory=list)

    @property
    def actions(self) -> list[Action]:
        """All actions but claiming, in their order."""
        return [
            action
            for each in self.decided
            for action in each.actions
            if not isinstance(action, ClaimReplicaSets)
        ]

    @property
    def decision(self) -> DeploymentDecision:
        """The decision that ended the sync."""
        last = self.decided[-1]
        assert not isinstance(last, Step)
        return last


def first_view(cluster: Cluster, *, is_reread: bool = False) -> View:
    """Return the view at the beginning of a sync."""
    return View.of(cluster.deployment, is_reread=is_reread, counts_terminating=True)


def claimed_view(cluster: Cluster, *, is_reread: bool = False) -> View:
    """Return the view once the replica sets are claimed."""
    rollout = find_rollout(cluster.deployment, cluster.replica_sets)
    view = first_view(cluster, is_reread=is_reread)
    return structs.replace(view, rollout=rollout, claimed=True, old_pods=cluster.pods)


def play(cluster: Cluster, now: datetime = NOW, *, is_reread: bool = False) -> Played:
    """Decide and carry out steps until there is a decision; at most five steps."""
    played = Played(cluster, first_view(cluster, is_reread=is_reread))
    for _ in range(6):
        decided = decide(played.view, now)
        played.decided.append(decided)
        for action in decided.actions:
            _carry_out(played, action)
        if not isinstance(decided, Step):
            if decided.status is not None:
                _store(played, decided.status.deployment)
            return played
    msg = f"no decision after {len(played.decided)} steps: {played.decided}"
    raise AssertionError(msg)


def _store(played: Played, deployment: Deployment) -> None:
    played.cluster = replace(played.cluster, deployment=deployment)


def _carry_out(played: Played, action: Action) -> None:
    match action:
        case RecordEvent() | RereadReplicaSets():
            return
        case ClaimReplicaSets():
            played.view = claimed_view(played.cluster, is_reread=played.view.is_reread)
        case PatchReplicaSet(replica_set, patch):
            _learn_patched(played, _patched(replica_set, patch))
        case CreateReplicaSet(_, candidate):
            _learn_creation(played, candidate)
        case TryReplicaSet():
            played.view = structs.replace(played.view, creation=Unchanged())
        case UseExistingReplicaSet(existing):
            _learn_new(played, existing, ExistingUsed())
        case DeleteReplicaSet(gone):
            left = tuple(each for each in played.cluster.replica_sets if each != gone)
            assert len(left) == len(played.cluster.replica_sets) - 1
            played.cluster = replace(played.cluster, replica_sets=left)
        case ReadDeployment(deployment):
            stored = _as_json(deployment)
            if played.cluster.changes_meanwhile:
                stored["metadata"]["resourceVersion"] = "newer"
            played.view = structs.replace(played.view, stored=stored)
        case ReplaceDeployment(_, body):
            replaced = msgspec.json.decode(msgspec.json.encode(body), type=Deployment)
            _store(played, replaced)
        case CountCollision(deployment) | WriteFailure(deployment):
            _store(played, deployment)
        case _:
            assert_never(action)


def _as_json(obj: Deployment | ReplicaSet) -> Any:
    return msgspec.json.decode(msgspec.json.encode(obj))


def _patched(replica_set: ReplicaSet, patch: Any) -> ReplicaSet:
    before = _as_json(replica_set)
    metadata = before["metadata"]
    metadata.setdefault("annotations", {}).update(
        patch.get("metadata", {}).get("annotations", {})
    )
    before["spec"].update(patch.get("spec", {}))
    return msgspec.json.decode(msgspec.json.encode(before), type=ReplicaSet)


def _learn_patched(played: Played, stored: ReplicaSet) -> None:
    view = played.view
    played.cluster = played.cluster.with_replica_set(stored)
    played.view = structs.replace(
        view,
        rollout=view.rollout.replace(stored),
        patched=view.patched | {stored.metadata.uid},
    )


def _learn_creation(played: Played, candidate: ReplicaSet) -> None:
    name = candidate.metadata.name
    match played.cluster.to_creation:
        case "created":
            created = _stored(candidate)
            played.cluster = played.cluster.with_replica_set(created)
            _learn_new(played, created, Created())
        case "ours":
            ours = _stored(candidate)
            played.cluster = played.cluster.with_replica_set(ours)
            played.view = structs.replace(played.view, creation=NameTaken(ours, TAKEN))
        case "a stranger's":
            reference = controller_reference(
                Deployment(), DEPLOYMENTS.api_version, DEPLOYMENTS.kind
            )
            metadata = msgspec.structs.replace(
                candidate.metadata, owner_references=(reference,)
            )
            strange = msgspec.structs.replace(candidate, metadata=metadata)
            played.view = structs.replace(
                played.view, creation=NameTaken(strange, TAKEN)
            )
        case "terminating":
            played.view = structs.replace(played.view, creation=NamespaceTerminating())
        case "failed":
            played.view = structs.replace(
                played.view, creation=CreationFailed(name, FAILED)
            )


def _stored(candidate: ReplicaSet) -> ReplicaSet:
    metadata = msgspec.structs.replace(
        candidate.metadata,
        uid=f"uid of {candidate.metadata.name}",
        creation_timestamp="2026-01-01T11:00:00Z",
        generation=1,
    )
    return msgspec.structs.replace(candidate, metadata=metadata)


def _learn_new(
    played: Played, new: ReplicaSet, creation: Created | ExistingUsed
) -> None:
    rollout = Rollout(played.view.deployment, new, played.view.rollout.old)
    played.view = structs.replace(played.view, rollout=rollout, creation=creation)


def sizes_of(cluster: Cluster) -> int:
    """Return the sum of the sizes of all replica sets."""
    return sum(map(desired_replicas, cluster.replica_sets))
