"""An API server as a value, and a sync of the deployment controller against it."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec
from msgspec import structs

from controller_manager.api.apps.v1 import (
    DEPLOYMENTS,
    REPLICASETS,
    Deployment,
    DeploymentStatus,
    ReplicaSet,
)
from controller_manager.api.core.v1 import PODS, ObjectReference, Pod
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import (
    OwnerReference,
    Status,
    StatusCause,
    StatusDetails,
    controller_reference,
)
from controller_manager.client.rest.errors import (
    AlreadyExists,
    APIError,
    Forbidden,
    InternalError,
)
from controller_manager.controllers.apps.deployment.controller import (
    DeploymentReconciler,
)
from controller_manager.controllers.apps.deployment.rollout import find_rollout
from controller_manager.runtime.outcome import Done, Outcome, Reason, Requeue
from tests.controllers.alone import Alone, Caches
from tests.controllers.builders import deployment, replica_set

TAKEN = AlreadyExists(Status(message='replicasets.apps "web-x" already exists'))
FAILED = InternalError(Status(message="etcdserver: no leader"))
ENDING = Forbidden(
    Status(details=StatusDetails(causes=(StatusCause(reason="NamespaceTerminating"),)))
)

REREAD = Requeue(0.0, "the cache may have templates of another API server")

ToCreation = Literal["created", "ours", "a stranger's", "terminating", "failed"]
"""The responses of the API server to the creation of a replica set."""

Write = tuple[str, str, Any]
"""The verb, the name of the object, and what was sent."""


@dataclass(frozen=True)
class Cluster:
    """One deployment, and the other stored objects."""

    deployment: Deployment
    replica_sets: tuple[ReplicaSet, ...] = ()
    pods: tuple[Pod, ...] = ()
    to_creation: ToCreation = "created"
    changes_meanwhile: bool = False
    """True if a user writes the deployment during a sync."""

    reverts_patches: bool = False
    """True if a webhook reverts each patch of a replica set."""

    def with_replica_set(self, changed: ReplicaSet) -> "Cluster":
        uid = changed.metadata.uid
        others = (each for each in self.replica_sets if each.metadata.uid != uid)
        return replace(self, replica_sets=(*others, changed))


class Client:
    """Answers the requests of one sync, and keeps its writes."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.writes: list[Write] = []

    async def get(self, resource: Any, namespace: str, name: str) -> Any:
        del namespace
        if resource is DEPLOYMENTS:
            return self.cluster.deployment
        return next(x for x in self.cluster.replica_sets if x.metadata.name == name)

    async def get_json(self, resource: Any, namespace: str, name: str) -> Any:
        del resource, namespace, name
        stored = _as_json(self.cluster.deployment)
        if self.cluster.changes_meanwhile:
            stored["metadata"]["resourceVersion"] = "newer"
        return stored

    async def create(self, resource: Any, candidate: ReplicaSet) -> ReplicaSet:
        del resource
        self.writes.append(("create", candidate.metadata.name, candidate))
        created = _stored(candidate)
        match self.cluster.to_creation:
            case "created":
                self.cluster = self.cluster.with_replica_set(created)
                return created
            case "ours":
                half = (candidate.spec.replicas or 0) // 2
                ours = structs.replace(
                    created, spec=structs.replace(created.spec, replicas=half)
                )
                self.cluster = self.cluster.with_replica_set(ours)
                raise TAKEN
            case "a stranger's":
                stranger = controller_reference(Deployment(), DEPLOYMENTS)
                strange = _belonging(created, stranger)
                self.cluster = self.cluster.with_replica_set(strange)
                raise TAKEN
            case "terminating":
                raise ENDING
            case "failed":
                raise FAILED

    async def patch(
        self, resource: Any, namespace: str, name: str, patch: Any, kind: Any
    ) -> ReplicaSet:
        del namespace, kind
        before: ReplicaSet = await self.get(resource, "", name)
        metadata = dict(patch.get("metadata", {}))
        assert metadata.pop("resourceVersion") == before.metadata.resource_version
        sent = {**patch, "metadata": metadata}
        self.writes.append(("patch", name, {k: v for k, v in sent.items() if v}))
        if self.cluster.reverts_patches:
            return before
        stored = _patched(before, patch)
        self.cluster = self.cluster.with_replica_set(stored)
        return stored

    async def delete_exactly(
        self, resource: Any, obj: ReplicaSet, *, same_version: bool
    ) -> None:
        name = obj.metadata.name
        gone = await self.get(resource, "", name)
        assert same_version
        assert obj.metadata.uid == gone.metadata.uid
        left = tuple(x for x in self.cluster.replica_sets if x is not gone)
        self.cluster = replace(self.cluster, replica_sets=left)
        self.writes.append(("delete", name, None))

    async def update_json(self, resource: Any, body: Any) -> None:
        del resource
        self.writes.append(("update", body["metadata"]["name"], body))
        stored = msgspec.json.decode(msgspec.json.encode(body), type=Deployment)
        self.cluster = replace(self.cluster, deployment=stored)

    async def update_for_metadata(
        self, resource: Any, deployment: Deployment, subresource: str
    ) -> None:
        del resource
        self.writes.append((subresource, deployment.metadata.name, deployment))
        self.cluster = replace(self.cluster, deployment=deployment)


@dataclass
class Played:
    """The result of one sync."""

    cluster: Cluster
    writes: list[Write]
    events: list[tuple[str, str, str]]
    outcome: Outcome | None = None
    error: Exception | None = None
    awaited: list[tuple[str, str]] = field(default_factory=list)

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """What the deployment still waits for."""
        return self.outcome.reasons if isinstance(self.outcome, Done) else ()

    @property
    def status(self) -> dict[str, Any]:
        """The status that was written, without its conditions."""
        (written,) = (sent for verb, _, sent in self.writes if verb == "status")
        numbers: dict[str, Any] = msgspec.to_builtins(written.status)
        numbers.pop("conditions")
        return numbers

    @property
    def others(self) -> list[Write]:
        """The writes but those of a status."""
        return [each for each in self.writes if each[0] != "status"]


def play(cluster: Cluster, *, is_reread: bool = False) -> Played:
    """Carry out one sync, and return what it has written.

    With `is_reread` a sync that only reads replica sets again is followed by another.
    """
    cluster = _owned(cluster)
    caches, client = Caches(), Client(cluster)
    caches.fill(DEPLOYMENTS, [cluster.deployment])
    caches.fill(REPLICASETS, cluster.replica_sets)
    caches.fill(PODS, cluster.pods)
    alone = Alone(DeploymentReconciler, client, caches)
    outcome, error = None, None
    try:
        outcome = alone.reconcile(cluster.deployment)
        if is_reread and outcome == REREAD:
            outcome = alone.reconcile(cluster.deployment)
    except APIError as raised:
        error = raised
    return Played(
        client.cluster,
        client.writes,
        alone.recorder.events,
        outcome,
        error,
        alone.awaited,
    )


def _owned(cluster: Cluster) -> Cluster:
    """Return the cluster with the owners that its objects have: nothing to claim.

    The pods belong to the oldest replica set with another template.
    """
    owner = controller_reference(cluster.deployment, DEPLOYMENTS)
    replica_sets = tuple(
        _belonging(each, owner, app="web") for each in cluster.replica_sets
    )
    pods: tuple[Pod, ...] = ()
    if old := find_rollout(cluster.deployment, replica_sets).old:
        owner = controller_reference(old[0], REPLICASETS)
        pods = tuple(_belonging(each, owner) for each in cluster.pods)
    return replace(cluster, replica_sets=replica_sets, pods=pods)


def _belonging(obj: Any, owner: OwnerReference, **labels: str) -> Any:
    metadata = structs.replace(
        obj.metadata, owner_references=(owner,), labels=labels or obj.metadata.labels
    )
    return structs.replace(obj, metadata=metadata)


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


def _stored(candidate: ReplicaSet) -> ReplicaSet:
    metadata = structs.replace(
        candidate.metadata,
        uid=f"uid of {candidate.metadata.name}",
        creation_timestamp="2026-01-01T11:00:00Z",
        generation=1,
    )
    return structs.replace(candidate, metadata=metadata)


REVISION = "deployment.kubernetes.io/revision"
ROLLBACK = "deprecated.deployment.rollback.to"
SIZES = {
    "deployment.kubernetes.io/desired-replicas": "4",
    "deployment.kubernetes.io/max-replicas": "5",
}
RECREATE = {"type": "Recreate"}
EARLIER = "2026-01-01T11:59:30Z"
SINCE_EARLIER = datetime(2026, 1, 1, 11, 59, 30, tzinfo=UTC)


def _reason(
    kind: str, name: str, uid: str, waiting_for: str, since: datetime | None
) -> Reason:
    reference = ObjectReference(
        kind=kind, namespace="default", name=name, uid=uid, api_version="apps/v1"
    )
    return Reason(waiting_for, since, reference)


def of_deployment(waiting_for: str, since: datetime | None = None) -> Reason:
    return _reason("Deployment", "web", "d", waiting_for, since)


def of_replica_set(
    name: str, waiting_for: str, since: datetime | None = None
) -> Reason:
    return _reason("ReplicaSet", name, name, waiting_for, since)


def web(
    *,
    metadata: dict[str, Any] | None = None,
    status: DeploymentStatus | None = None,
    **spec: Any,
) -> Deployment:
    subject = deployment(4, **spec)
    changed = structs.replace(
        subject.metadata, resource_version="1", **(metadata or {})
    )
    return structs.replace(
        subject, metadata=changed, status=status or DeploymentStatus()
    )


def sized(name: str, replicas: int, available: int = 0, **more: Any) -> ReplicaSet:
    return replica_set(name, replicas, available, desired=4, maximum=5, **more)


def old(replicas: int, available: int = 0, **more: Any) -> ReplicaSet:
    """Return the replica set of the first revision."""
    given = {"image": "app:v0", "revision": 1, **more}
    return sized("o", replicas, available, **given)


def new(replicas: int, available: int = 0, current: int | None = None) -> ReplicaSet:
    """Return the replica set of the second revision, of the present template."""
    return sized("newest", replicas, available, revision=2, current=current)


def status_of(*conditions: JSON, **numbers: int) -> DeploymentStatus:
    return msgspec.convert({**numbers, "conditions": conditions}, DeploymentStatus)


def complete() -> DeploymentStatus:
    names = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
    return status_of(observedGeneration=1, **dict.fromkeys(names, 4))


def condition_json(
    reason: str,
    message: str = "m",
    status: str = "True",
    *,
    kind: str = "Progressing",
    updated: str = EARLIER,
    changed: str = EARLIER,
) -> JSON:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastUpdateTime": updated,
        "lastTransitionTime": changed,
    }
