"""Carries out what the deployment controller decided."""

from collections.abc import Iterable
from typing import Protocol, assert_never

from msgspec.structs import replace

from controller_manager.api.apps.v1 import (
    DEPLOYMENTS,
    REPLICASETS,
    Deployment,
    ReplicaSet,
)
from controller_manager.api.core.v1 import Pod
from controller_manager.api.selectors import Selector
from controller_manager.client.client import Client, DeleteOptions, PatchType
from controller_manager.client.errors import (
    AlreadyExists,
    APIError,
    NotFound,
    TransportError,
    is_about,
    is_namespace_terminating,
)
from controller_manager.client.events import EventRecorder
from controller_manager.control.claims import Claimer
from controller_manager.controllers.apps.deployment.actions import (
    Action,
    ClaimReplicaSets,
    CountCollision,
    CreateReplicaSet,
    DeleteReplicaSet,
    DeploymentEvent,
    PatchReplicaSet,
    ReadDeployment,
    RecordEvent,
    ReplaceDeployment,
    RereadReplicaSets,
    StatusReport,
    UseNamesake,
    WriteFailure,
)
from controller_manager.controllers.apps.deployment.rollout import (
    Rollout,
    find_rollout,
)
from controller_manager.controllers.apps.deployment.scaling import RECREATE
from controller_manager.controllers.apps.deployment.status import is_same
from controller_manager.controllers.apps.deployment.view import (
    Created,
    CreationFailed,
    NamesakeUsed,
    NamespaceTerminating,
    NameTaken,
    View,
)
from controller_manager.observability.logs import Logger


class Caches(Protocol):
    """What the applier asks the controller's caches, and what it tells them."""

    def current(self, deployment: Deployment) -> Deployment | None:
        """Return the deployment of that name as it is cached now."""

    def claimable(
        self, deployment: Deployment, selector: Selector
    ) -> Iterable[ReplicaSet]:
        """Return the replica sets that it has, and orphans that match."""

    def pods_of(self, replica_sets: Iterable[ReplicaSet]) -> tuple[Pod, ...]:
        """Return the pods that replica sets manage."""

    def wait_for(self, deployment: Deployment, namesake: ReplicaSet) -> None:
        """Wait with the deployment's key until the cache shows a replica set."""

    def reread_deployment(self, fresh: Deployment) -> None:
        """Take a deployment that was just read, or wait for one as new."""

    def reread_replica_set(self, deployment: Deployment, fresh: ReplicaSet) -> None:
        """Take a replica set of a deployment that was just read, likewise."""

    def finish_reread(self, deployment: Deployment) -> None:
        """Note that all doubtful replica sets of this version were read."""

    def judged(self, deployment: Deployment) -> None:
        """Note the status that a sync came to, for the metric of rollouts."""


class DeploymentApplier:
    """Carries out actions one after the other, and learns from the answers."""

    def __init__(
        self, client: Client, recorder: EventRecorder, logger: Logger, caches: Caches
    ) -> None:
        """Take what writes, and the caches that must come to show it."""
        self._client = client
        self._recorder = recorder
        self._logger = logger
        self._caches = caches

    async def apply(self, view: View, action: Action) -> View:
        """Carry out one action; return the view with what it taught.

        Raises what the client raises, but for the answers to a creation.
        """
        match action:
            case RecordEvent(event):
                self._record(view, event)
                return view
            case ClaimReplicaSets(selector):
                return await self._claim(view, selector)
            case RereadReplicaSets(replica_sets):
                return await self._reread(view, replica_sets)
            case PatchReplicaSet():
                return await self._patch(view, action)
            case CreateReplicaSet():
                return await self._create(view, action)
            case UseNamesake(namesake):
                self._caches.wait_for(view.deployment, namesake)
                return _with_new(view, namesake, NamesakeUsed())
            case DeleteReplicaSet(replica_set):
                await self._delete(replica_set)
                return view
            case ReadDeployment(deployment):
                return await self._read(view, deployment)
            case ReplaceDeployment():
                return await self._replace(view, action)
            case CountCollision(deployment):
                return await self._count_collision(view, deployment)
            case WriteFailure(deployment):
                return await self._write_failure(view, deployment)
        assert_never(action)

    async def report(self, view: View, status: StatusReport) -> None:
        """Write status and revision, unless the cache shows both already.

        A deployment that has just gone needs none.
        """
        reported = status.deployment
        if status.judges_progress:
            self._caches.judged(reported)
        known = self._caches.current(view.deployment)
        if known is None or (
            known.metadata == reported.metadata
            and is_same(known.status, reported.status)
        ):
            return
        try:
            await self._write_status(reported)
        except NotFound:
            return

    def _record(self, view: View, event: DeploymentEvent | None) -> None:
        if event is not None:
            self._recorder.event(
                DEPLOYMENTS, view.deployment, event.type, event.reason, event.message
            )

    # Replica sets.

    async def _claim(self, view: View, selector: Selector) -> View:
        deployment = view.deployment
        claimer = Claimer(self._client, DEPLOYMENTS, REPLICASETS)
        candidates = self._caches.claimable(deployment, selector)
        claimed = await claimer.claim(deployment, selector, candidates)
        rollout = find_rollout(deployment, claimed)
        pods: tuple[Pod, ...] = ()
        if deployment.spec.strategy.type == RECREATE:
            pods = self._caches.pods_of(rollout.old)
        return replace(view, rollout=rollout, claimed=True, old_pods=pods)

    async def _reread(self, view: View, replica_sets: Iterable[ReplicaSet]) -> View:
        deployment = view.deployment
        metadata = deployment.metadata
        fresh = await self._client.get(DEPLOYMENTS, metadata.namespace, metadata.name)
        self._caches.reread_deployment(fresh)
        for replica_set in replica_sets:
            await self._reread_one(deployment, replica_set)
        self._caches.finish_reread(deployment)
        return replace(view, is_reread=True)

    async def _reread_one(
        self, deployment: Deployment, replica_set: ReplicaSet
    ) -> None:
        metadata = replica_set.metadata
        try:
            fresh = await self._client.get(
                REPLICASETS, metadata.namespace, metadata.name
            )
        except NotFound as error:
            if not is_about(error, metadata.name):
                raise
            return  # the watch will tell
        self._caches.reread_replica_set(deployment, fresh)

    async def _patch(self, view: View, action: PatchReplicaSet) -> View:
        """Patch this very version; raises Conflict if it has changed."""
        metadata = action.replica_set.metadata
        changed = {
            **action.patch.get("metadata", {}),
            "resourceVersion": metadata.resource_version,
        }
        stored = await self._client.patch(
            REPLICASETS,
            metadata.namespace,
            metadata.name,
            {**action.patch, "metadata": changed},
            PatchType.MERGE,
        )
        self._record(view, action.event)
        return replace(
            view,
            rollout=view.rollout.replace(stored),
            patched=view.patched | {stored.metadata.uid},
        )

    async def _create(self, view: View, action: CreateReplicaSet) -> View:
        candidate = action.replica_set
        metadata = candidate.metadata
        try:
            created = await self._client.create(REPLICASETS, candidate)
        except AlreadyExists as error:
            namesake = await self._client.get(
                REPLICASETS, metadata.namespace, metadata.name
            )
            return replace(view, creation=NameTaken(namesake, error))
        except (APIError, TransportError) as error:
            if is_namespace_terminating(error):
                return replace(view, creation=NamespaceTerminating())
            return replace(view, creation=CreationFailed(metadata.name, error))
        self._record(view, action.event)
        return _with_new(view, created, Created())

    async def _delete(self, replica_set: ReplicaSet) -> None:
        metadata = replica_set.metadata
        self._logger.v(4).info("Deleting old replica set", replica_set=metadata.name)
        options = DeleteOptions(
            uid=metadata.uid, resource_version=metadata.resource_version
        )
        try:
            await self._client.delete(
                REPLICASETS, metadata.namespace, metadata.name, options
            )
        except NotFound:
            return

    # The deployment.

    async def _read(self, view: View, deployment: Deployment) -> View:
        metadata = deployment.metadata
        stored = await self._client.get_json(
            DEPLOYMENTS, metadata.namespace, metadata.name
        )
        return replace(view, stored=stored)

    async def _replace(self, view: View, action: ReplaceDeployment) -> View:
        await self._client.update_json(DEPLOYMENTS, action.body)
        self._record(view, action.event)
        return view

    async def _count_collision(self, view: View, deployment: Deployment) -> View:
        await self._write_status(deployment)
        self._logger.v(2).info(
            "Found a hash collision, bumping collisionCount",
            count=deployment.status.collision_count,
        )
        return view

    async def _write_failure(self, view: View, deployment: Deployment) -> View:
        try:
            await self._write_status(deployment)
        except (APIError, TransportError) as error:
            self._logger.v(2).info("Condition not written", err=str(error))
        return view

    async def _write_status(self, deployment: Deployment) -> None:
        await self._client.update(DEPLOYMENTS, deployment, "status")


def _with_new(view: View, new: ReplicaSet, creation: Created | NamesakeUsed) -> View:
    rollout = Rollout(view.deployment, new, view.rollout.old)
    return replace(view, rollout=rollout, creation=creation)
