"""The watches, the sync and the writes of the deployment controller.

Upstream: pkg/controller/deployment of v1.36 (deployment_controller.go). `decide`
makes the decision of a sync, and `DeploymentApplier` carries it out.
"""

from collections.abc import Iterable, Sequence
from typing import assert_never

from msgspec.structs import replace

from controller_manager.api.apps.v1 import (
    DEPLOYMENTS,
    REPLICASETS,
    Deployment,
    ReplicaSet,
)
from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.meta import key_of, labels_of
from controller_manager.api.selectors import Selector, compile_selector
from controller_manager.client.client import Client, DeleteOptions, PatchType
from controller_manager.client.errors import (
    AlreadyExists,
    APIError,
    BadRequest,
    NotFound,
    TransportError,
    is_about,
    is_namespace_terminating,
)
from controller_manager.client.events import EventRecorder
from controller_manager.control.claims import Claimer
from controller_manager.control.decision import decide_and_apply
from controller_manager.control.gates import TERMINATING_REPLICAS
from controller_manager.control.mutations import Mutation, first_difference
from controller_manager.observability.logs import Logger
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import Outcome
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.watches import For, Maps, Owns

from .actions import (
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
    TryReplicaSet,
    UseExistingReplicaSet,
    WriteFailure,
)
from .caches import Caches
from .decide import decide
from .metrics import RolloutMetrics, RolloutTimes
from .new_replica_set import LABELS, reported_mutation
from .options import DeploymentOptions
from .pod_template import changed_field
from .scaling import RECREATE
from .status import is_same
from .view import (
    Created,
    CreationFailed,
    ExistingUsed,
    Mutated,
    NamespaceTerminating,
    NameTaken,
    Rollout,
    Unchanged,
    View,
    find_rollout,
)


class DeploymentApplier:
    """Carries out actions one after the other; the view gets their results."""

    def __init__(
        self,
        client: Client,
        recorder: EventRecorder,
        logger: Logger,
        caches: Caches,
        times: RolloutTimes,
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._logger = logger
        self._caches = caches
        self._times = times

    async def apply(self, view: View, action: Action) -> View:
        """Carry out one action; return the view with the result of the action.

        Raises the errors of the client; the error of a creation is in the view instead.
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
            case TryReplicaSet(known, candidate):
                return await self._try(view, known, candidate)
            case CreateReplicaSet():
                return await self._create(view, action)
            case UseExistingReplicaSet(existing):
                self._caches.wait_for(view.deployment, existing)
                return _with_new(view, existing, ExistingUsed())
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

        Does nothing if the deployment is gone.
        """
        reported = status.deployment
        if status.updates_progress:
            self._times.reported(key_of(reported), reported.status)
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
        claimed = await claimer.claim(deployment, selector, tuple(candidates))
        rollout = find_rollout(deployment, claimed)
        if rollout.new is not None:
            self._caches.mutations.forget(key_of(deployment))
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
            return  # the watch will show its deletion
        self._caches.reread_replica_set(deployment, fresh)

    async def _patch(self, view: View, action: PatchReplicaSet) -> View:
        """Patch this version; raise Conflict if the replica set has changed."""
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
            existing = await self._client.get(
                REPLICASETS, metadata.namespace, metadata.name
            )
            return replace(view, creation=NameTaken(existing, error))
        except (APIError, TransportError) as error:
            if is_namespace_terminating(error):
                return replace(view, creation=NamespaceTerminating())
            return replace(view, creation=CreationFailed(metadata.name, error))
        self._record(view, action.event)
        if field := _changed_field(view.deployment, candidate, created):
            name = created.metadata.name
            found = self._caches.mutations.found(view.deployment, name, field)
            return replace(_with_old(view, created), creation=Mutated(found))
        return _with_new(view, created, Created())

    async def _try(self, view: View, known: Mutation, candidate: ReplicaSet) -> View:
        """Ask by a dry run whether admission still changes the new replica set."""
        deployment, mutations = view.deployment, self._caches.mutations
        known = replace(known, name=known.name or _newest(view.rollout.old))
        try:
            tried = await self._client.try_create(REPLICASETS, candidate)
        except BadRequest:
            # A webhook allows no dry runs, so that only a creation can tell.
            return replace(view, creation=Unchanged())
        except (APIError, TransportError) as error:
            if is_namespace_terminating(error):
                return replace(view, creation=NamespaceTerminating())
            failed = mutations.not_told(deployment, known, error)
            return replace(view, creation=Mutated(failed))
        if field := _changed_field(deployment, candidate, tried):
            found = mutations.found(deployment, known.name, field)
            return replace(view, creation=Mutated(found))
        return replace(view, creation=Unchanged())

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
            self._logger.v(2).info(
                "The condition of the deployment was not written", err=str(error)
            )
        return view

    async def _write_status(self, deployment: Deployment) -> None:
        await self._client.update_for_metadata(DEPLOYMENTS, deployment, "status")


def _changed_field(deployment: Deployment, sent: ReplicaSet, stored: ReplicaSet) -> str:
    """Return a changed field for which the deployment takes or finds no replica set.

    It releases a replica set whose labels do not match its selector. Returns "" if
    there is no such field.
    """
    if field := changed_field(sent.spec.template, stored.spec.template):
        return field
    if compile_selector(deployment.spec.selector).matches(labels_of(stored)):
        return ""
    return first_difference(labels_of(sent), labels_of(stored), LABELS)


def _newest(replica_sets: Sequence[ReplicaSet]) -> str:
    """Return the name of the replica set that was created last."""
    made = ((x.metadata.creation_timestamp, x.metadata.name) for x in replica_sets)
    return max(made)[1]


def _with_old(view: View, created: ReplicaSet) -> View:
    old = (*view.rollout.old, created)
    return replace(view, rollout=Rollout(view.deployment, None, old))


def _with_new(view: View, new: ReplicaSet, creation: Created | ExistingUsed) -> View:
    rollout = Rollout(view.deployment, new, view.rollout.old)
    return replace(view, rollout=rollout, creation=creation)


class DeploymentReconciler(Reconciler[Deployment]):
    """Replaces pods of old templates by pods of the current one, with replica sets."""

    queue_name = "deployment"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self.workers = context.config.of(DeploymentOptions).concurrent_syncs
        self._counts_terminating = context.config.features.is_enabled(
            TERMINATING_REPLICAS
        )
        self._replica_sets = self.lister(REPLICASETS)
        self._caches = Caches(context, self.objects, self._replica_sets)
        self._times = RolloutTimes(context.clock, context.metrics.of(RolloutMetrics))
        self._applier = DeploymentApplier(
            context.client,
            context.recorder,
            context.logger,
            self._caches,
            self._times,
        )

    def _waiting_for_its_last_pod(self, pod: Pod) -> Iterable[str]:
        """Return the key of a Recreate deployment, which waits for its last old pod."""
        replica_set = self._replica_sets.controller_of(pod)
        if replica_set is None:
            return ()
        deployment = self.objects.controller_of(replica_set)
        if deployment is None or deployment.spec.strategy.type != RECREATE:
            return ()
        return (key_of(deployment),)

    watches = (
        For(DEPLOYMENTS),
        Owns(REPLICASETS),
        Maps(PODS, _waiting_for_its_last_pod, on=("delete",)),
    )

    async def reconcile(self, deployment: Deployment) -> Outcome:
        """Continue the rollout of the deployment."""
        mutation = self._caches.mutations.of(deployment)
        view = View.of(
            deployment,
            is_reread=self._caches.were_reread(deployment),
            counts_terminating=self._counts_terminating,
            mutation=mutation or reported_mutation(deployment),
        )
        return await decide_and_apply(
            view, decide, self._applier, self.clock, self.logger
        )

    def forget(self, key: str) -> None:
        """Drop the state of a deployment that is gone."""
        self._caches.forget(key)
        self._times.forget(key)
