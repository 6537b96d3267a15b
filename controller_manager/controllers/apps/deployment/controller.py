"""The watches, the sync and the writes of the deployment controller.

Upstream: pkg/controller/deployment of v1.36 (deployment_controller.go, sync.go,
rolling.go, recreate.go, rollback.go).
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from controller_manager.api.apps.v1 import (
    DEPLOYMENTS,
    REPLICASETS,
    Deployment,
    DeploymentStatus,
    ReplicaSet,
    desired_replicas,
)
from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.meta import annotations_of, is_deleting, key_of
from controller_manager.api.selectors import compile_selector
from controller_manager.client.events.recorder import NORMAL, WARNING
from controller_manager.client.rest import errors
from controller_manager.client.rest.client import PatchType
from controller_manager.control.controller_ref_manager import Claimer
from controller_manager.control.creation_delays import Mutation, Mutations
from controller_manager.control.expectations import live
from controller_manager.control.gates import TERMINATING_REPLICAS
from controller_manager.informers.store import BY_CONTROLLER
from controller_manager.runtime.consistency import STALE_RECHECK
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import (
    Done,
    Outcome,
    Reason,
    Requeue,
    failure_of,
    waiting,
)
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.watches import For, Maps, Owns

from . import DeploymentOptions, revisions, scaling
from .rollout import (
    LABELS,
    RECREATE,
    ROLLING_UPDATE,
    Refusal,
    Rollout,
    by_age,
    changed_field,
    equal_ignoring_hash,
    find_rollout,
    is_the_new_one,
    may_be_equal,
    new_replica_set,
    refusal_of,
)
from .status import (
    PROGRESSING,
    REPLICA_SET_CREATE_ERROR,
    REPLICA_SET_MUTATED,
    RolloutTimes,
    calculate_status,
    condition,
    draft_of,
    has_deadline,
    is_complete,
    is_same,
    next_progress_check,
    record_pause,
    reported_mutation,
    rollout_duration,
    rollout_reasons,
    rollout_status,
    with_mutation,
    with_progressing,
)


class DeploymentReconciler(Reconciler[Deployment]):
    """Replaces pods of old templates by pods of the current one, with replica sets.

    A sync does one thing: it sizes replica sets, or restores a template, or reports the
    status. After a new size, the event of the replica set causes the next sync.
    """

    queue_name = "deployment"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self.workers = context.config.of(DeploymentOptions).concurrent_syncs
        gates = context.config.features
        self._counts_terminating = gates.is_enabled(TERMINATING_REPLICAS)
        self._replica_sets = self.lister(REPLICASETS)
        self._pods = context.lister(PODS, BY_CONTROLLER)
        self._claimer = Claimer(self.client, DEPLOYMENTS, REPLICASETS)
        self._times = RolloutTimes(context.clock, context.metrics.of(rollout_duration))
        self._mutations = Mutations(context.clock)
        self._reread_versions: dict[str, str] = {}
        """The resource versions of deployments whose replica sets were read again, by
        key."""

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

    def forget(self, key: str) -> None:
        """Drop the state of a deployment that is gone."""
        self._reread_versions.pop(key, None)
        self._mutations.forget(key)
        self._times.forget(key)

    async def reconcile(self, deployment: Deployment) -> Outcome:
        """Continue the rollout of the deployment (syncDeployment)."""
        if (refusal := refusal_of(deployment)) is not None:
            return await self._refuse(deployment, refusal)
        rollout = await self._claim(deployment)
        if is_deleting(deployment):
            return await self._report_sizes(rollout, deployment)
        if outdated := self._maybe_outdated(rollout):
            return await self._reread(deployment, outdated)
        revision = revisions.requested_revision(deployment)
        if revision is not None and not deployment.spec.paused:
            return await self._roll_back(rollout, revision)
        rollout = await self._sync_revision(rollout)
        if deployment.spec.paused or scaling.is_scaling_event(rollout):
            return await self._scale(rollout)
        match deployment.spec.strategy.type:
            case "RollingUpdate":
                return await self._rolling_update(rollout)
            case "Recreate":
                return await self._recreate(rollout)
            case other:
                message = (
                    f"This deployment cannot be processed: unexpected deployment "
                    f"strategy type: {other!r}; use {RECREATE} or {ROLLING_UPDATE}"
                )
                refusal = Refusal("InvalidStrategy", message)
                return await self._refuse(deployment, refusal)

    async def _refuse(self, deployment: Deployment, refusal: Refusal) -> Outcome:
        self._warn(deployment, refusal.reason, refusal.message)
        waiting_for = f"its spec to be corrected: {refusal.message}"
        reasons = (waiting(DEPLOYMENTS, deployment, waiting_for),)
        status, generation = deployment.status, deployment.metadata.generation
        if refusal.reason == "SelectingAll" and status.observed_generation < generation:
            observed = replace(status, observed_generation=generation)
            return await self._report(replace(deployment, status=observed), reasons)
        return Done(reasons=reasons)

    async def _claim(self, deployment: Deployment) -> Rollout:
        """Adopt and release replica sets (getReplicaSetsForDeployment)."""
        selector = compile_selector(deployment.spec.selector)
        candidates = self._replica_sets.candidates(deployment, selector)
        claimed = await self._claimer.claim(deployment, selector, candidates)
        rollout = find_rollout(deployment, claimed)
        if rollout.new is not None:
            self._mutations.forget(key_of(deployment))
        return rollout

    # Templates that another API server may have defaulted.

    def _maybe_outdated(self, rollout: Rollout) -> Sequence[ReplicaSet]:
        # After an upgrade, the API server shows a new default, which a cached object of
        # the same resource version lacks. So an old template may be the current one.
        # This is looked at once for each version of a deployment.
        deployment = rollout.deployment
        version = deployment.metadata.resource_version
        known = self._reread_versions.get(key_of(deployment))
        if rollout.new is not None or known == version:
            return ()
        template = deployment.spec.template
        old = rollout.old
        return [each for each in old if may_be_equal(each.spec.template, template)]

    async def _reread(
        self, deployment: Deployment, outdated: Iterable[ReplicaSet]
    ) -> Outcome:
        key, metadata = key_of(deployment), deployment.metadata
        fresh = await self.client.get(DEPLOYMENTS, metadata.namespace, metadata.name)
        if not self.context.informers.informer(DEPLOYMENTS).reread(fresh):
            self.context.consistency.record(key, DEPLOYMENTS, fresh)
        for replica_set in outdated:
            await self._reread_one(key, replica_set)
        self._reread_versions[key] = metadata.resource_version
        return Requeue(0.0, "the cache may have templates of another API server")

    async def _reread_one(self, key: str, replica_set: ReplicaSet) -> None:
        namespace, name = replica_set.metadata.namespace, replica_set.metadata.name
        fresh = await live(self.client, REPLICASETS, namespace, name)
        if fresh is None:
            return  # the watch will show its deletion
        if not self.context.informers.informer(REPLICASETS).reread(fresh):
            self.context.consistency.record(key, REPLICASETS, fresh)

    # The new replica set.

    async def _sync_revision(self, rollout: Rollout) -> Rollout:
        new = rollout.new
        if new is None or not (patch := revisions.revision_patch(rollout)):
            return rollout
        return replace(rollout, new=await self._patch(new, patch))

    async def _ensure_new(self, rollout: Rollout) -> Rollout | Outcome:
        # Admission may change each new replica set: then none is created. That the
        # namespace is being deleted is no error.
        if rollout.new is not None:
            return rollout
        return await self._hold_mutated(rollout) or await self._create_new(rollout)

    async def _create_new(self, rollout: Rollout) -> Rollout | Outcome:
        # Another owner's replica set may have its name; then the collision is counted.
        deployment, candidate = rollout.deployment, _candidate(rollout)
        try:
            created = await self.client.create(REPLICASETS, candidate)
        except errors.AlreadyExists as error:
            existing = await self._existing(deployment, candidate, error)
            return await self._sync_revision(replace(rollout, new=existing))
        except (errors.APIError, errors.TransportError) as error:
            if errors.is_namespace_terminating(error):
                return await self._report_end_of_namespace(rollout)
            await self._report_failure(deployment, candidate, error)
            raise
        self._scaled(deployment, candidate, 0, desired_replicas(candidate))
        if field := changed_field(deployment, candidate, created):
            found = self._mutations.found(deployment, created.metadata.name, field)
            old = (*rollout.old, created)
            return await self._hold(replace(rollout, old=old), found, is_news=True)
        new = replace(rollout, new=created, is_created=True)
        return await self._sync_revision(new)

    async def _existing(
        self, deployment: Deployment, candidate: ReplicaSet, error: errors.AlreadyExists
    ) -> ReplicaSet:
        # If it cannot be the new one, the next attempt gets another name.
        metadata = candidate.metadata
        existing = await self.client.get(REPLICASETS, metadata.namespace, metadata.name)
        if is_the_new_one(deployment, existing):
            self.context.consistency.record(key_of(deployment), REPLICASETS, existing)
            return existing
        count = (deployment.status.collision_count or 0) + 1
        status = replace(deployment.status, collision_count=count)
        await self._write_status(replace(deployment, status=status))
        self.logger.v(2).info(
            "Found a hash collision, bumping collisionCount", count=count
        )
        raise error

    async def _report_failure(
        self, deployment: Deployment, candidate: ReplicaSet, error: Exception
    ) -> None:
        message = (
            f'Failed to create new replica set "{candidate.metadata.name}": {error}'
        )
        self._warn(deployment, REPLICA_SET_CREATE_ERROR, message)
        if not has_deadline(deployment):
            return
        what, now = (REPLICA_SET_CREATE_ERROR, message), self.clock.now()
        failure = condition(PROGRESSING, "False", *what, now)
        draft = with_progressing(record_pause(deployment, now), failure)
        if is_same(deployment.status, draft.status):
            return
        try:
            await self._write_status(draft)
        except (errors.APIError, errors.TransportError) as failed:
            # The error of the creation is more important, and is raised.
            self.logger.v(2).info(
                "The condition of the deployment was not written", err=str(failed)
            )

    # Admission that changes each new replica set.

    async def _hold_mutated(self, rollout: Rollout) -> Outcome | None:
        # A dry run tells whether admission still changes new replica sets. Without any
        # replica set there are no pods, so one is created at the time of that dry run,
        # unless the deployment would release it.
        deployment, mutations = rollout.deployment, self._mutations
        known = mutations.of(deployment) or reported_mutation(deployment)
        if rollout.new is not None or known is None:
            return None
        if known.seconds > 0:
            return await self._hold(rollout, known)
        if not rollout.old and not known.field.startswith(LABELS):
            return None
        name = known.name or max(rollout.old, key=by_age).metadata.name
        candidate = _candidate(rollout)
        prefix = f"{deployment.metadata.name}-"
        unnamed = replace(candidate.metadata, name="", generate_name=prefix)
        trial = replace(candidate, metadata=unnamed)
        try:
            tried = await self.client.try_create(REPLICASETS, trial)
        except errors.BadRequest:
            # A webhook allows no dry runs, so that only a creation can tell.
            return None
        except (errors.APIError, errors.TransportError) as error:
            if errors.is_namespace_terminating(error):
                return await self._report_end_of_namespace(rollout)
            failed = mutations.not_told(deployment, replace(known, name=name), error)
            return await self._hold(rollout, failed, is_news=True)
        if field := changed_field(deployment, candidate, tried):
            found = mutations.found(deployment, name, field)
            return await self._hold(rollout, found, is_news=True)
        return None

    async def _hold(
        self, rollout: Rollout, mutation: Mutation, *, is_news: bool = False
    ) -> Outcome:
        deployment, now = rollout.deployment, self.clock.now()
        if is_news:
            self._warn(deployment, REPLICA_SET_MUTATED, mutation.message)
        draft = draft_of(rollout, now)
        if has_deadline(deployment):
            draft = with_mutation(draft, mutation.message, now)
        waiting_for = f"a new replica set with its template: {mutation.message}"
        status = self._calculate(rollout, draft, now)
        return await self._report(
            replace(draft, status=status),
            (waiting(DEPLOYMENTS, deployment, waiting_for),),
            requeue_after=mutation.seconds,
        )

    # Scaling and the strategies.

    async def _scale(self, rollout: Rollout) -> Outcome:
        """Scale the replica sets to a changed size; create no replica set (sync)."""
        deployment = rollout.deployment
        if scaled := await self._carry_out(rollout, scaling.plan_scaling(rollout)):
            return scaled
        surplus: Sequence[ReplicaSet] = ()
        if deployment.spec.paused and revisions.requested_revision(deployment) is None:
            # A rollback waits for the end of the pause, and needs its revision.
            surplus = revisions.beyond_history_limit(rollout)
        draft = draft_of(rollout, self.clock.now())
        return await self._report_sizes(rollout, draft, surplus)

    async def _rolling_update(self, rollout: Rollout) -> Outcome:
        """Scale the new replica set up, else old ones down (rolloutRolling)."""
        ensured = await self._ensure_new(rollout)
        if not isinstance(ensured, Rollout):
            return ensured
        if rollout.new is None:
            return await self._report_progress(ensured)
        if scaled := await self._carry_out(rollout, scaling.plan_rolling(rollout)):
            return scaled
        return await self._report_progress(rollout, cleans_up=True)

    async def _recreate(self, rollout: Rollout) -> Outcome:
        # While admission changes each new replica set, the old pods stay: nothing would
        # replace them (rolloutRecreate).
        if (held := await self._hold_mutated(rollout)) is not None:
            return held
        if scaled := await self._carry_out(rollout, scaling.plan_scale_down(rollout)):
            return scaled
        pods = (pod for each in rollout.old for pod in self._pods.controlled_by(each))
        if scaling.old_pods_running(rollout, pods):
            waiting_for = "the last old pods to end"
            waits = waiting(DEPLOYMENTS, rollout.deployment, waiting_for)
            return await self._report_progress(rollout, waits)
        if rollout.new is None:
            created = await self._create_new(rollout)
            if not isinstance(created, Rollout):
                return created
            return await self._report_progress(created)
        if scaled := await self._carry_out(rollout, scaling.plan_scale_up(rollout)):
            return scaled
        return await self._report_progress(rollout, cleans_up=True)

    async def _carry_out(self, rollout: Rollout, plan: scaling.Plan) -> Outcome | None:
        """Give replica sets their sizes; `None` if all have them (scaleReplicaSet)."""
        deployment, reasons = rollout.deployment, []
        for replica_set, size in plan:
            if not (patch := scaling.size_patch(deployment, replica_set, size)):
                continue
            await self._patch(replica_set, patch)
            self._scaled(deployment, replica_set, desired_replicas(replica_set), size)
            waiting_for = f"size {size} of the replica set"
            reasons.append(waiting(REPLICASETS, replica_set, waiting_for))
        return Done(reasons=tuple(reasons)) if reasons else None

    async def _roll_back(self, rollout: Rollout, revision: int) -> Outcome:
        # The current template gets its revision first. So "the last revision" is the
        # one before it even if the current template was never rolled out (rollback).
        ensured = await self._ensure_new(await self._sync_revision(rollout))
        if not isinstance(ensured, Rollout):
            return ensured
        deployment, metadata = rollout.deployment, rollout.deployment.metadata
        stored = await self.client.get_json(
            DEPLOYMENTS, metadata.namespace, metadata.name
        )
        if stored["metadata"].get("resourceVersion") != metadata.resource_version:
            return Requeue(STALE_RECHECK, "the deployment has just changed")
        waiting_for = "the deployment to be rolled out after this write"
        done = Done(reasons=(waiting(DEPLOYMENTS, deployment, waiting_for),))
        target = revisions.rollback_target(ensured, revision)
        if target is None:
            which = "the revision to rollback to" if revision else "last revision"
            problem = "DeploymentRollbackRevisionNotFound", f"Unable to find {which}."
        elif equal_ignoring_hash(target.spec.template, deployment.spec.template):
            message = (
                "The rollback revision contains the same template as current "
                f'deployment "{metadata.name}"'
            )
            problem = "DeploymentRollbackTemplateUnchanged", message
        else:
            await self.client.update_json(
                DEPLOYMENTS, revisions.rolled_back(stored, target)
            )
            number = annotations_of(target.metadata).get(revisions.REVISION)
            message = f'Rolled back deployment "{metadata.name}" to revision {number}'
            self._record(deployment, "DeploymentRollback", message)
            return done
        self._warn(deployment, *problem)
        await self.client.update_json(DEPLOYMENTS, revisions.without_request(stored))
        return done

    # The status.

    async def _report_end_of_namespace(self, rollout: Rollout) -> Outcome:
        waits = waiting(DEPLOYMENTS, rollout.deployment, "its namespace to be deleted")
        return await self._report_progress(rollout, waits)

    async def _report_progress(
        self, rollout: Rollout, *waits: Reason, cleans_up: bool = False
    ) -> Outcome:
        """Report with Progressing; look again at its deadline (syncRolloutStatus)."""
        deployment, now = rollout.deployment, self.clock.now()
        draft = draft_of(rollout, now)
        status = rollout_status(rollout, self._calculate(rollout, draft, now), now)
        is_done = cleans_up and is_complete(deployment, deployment.status)
        return await self._report(
            replace(draft, status=status),
            (*waits, *rollout_reasons(rollout, status)),
            requeue_after=next_progress_check(deployment, status, now),
            surplus=revisions.beyond_history_limit(rollout) if is_done else (),
            is_progress=True,
        )

    async def _report_sizes(
        self, rollout: Rollout, draft: Deployment, surplus: Sequence[ReplicaSet] = ()
    ) -> Outcome:
        """Report without the condition Progressing (syncDeploymentStatus)."""
        status = self._calculate(rollout, draft, self.clock.now())
        reasons = rollout_reasons(rollout, status)
        return await self._report(replace(draft, status=status), reasons, surplus)

    def _calculate(
        self, rollout: Rollout, draft: Deployment, now: datetime
    ) -> DeploymentStatus:
        conditions, counts = draft.status.conditions or (), self._counts_terminating
        return calculate_status(rollout, conditions, now, terminating=counts)

    async def _report(
        self,
        reported: Deployment,
        reasons: tuple[Reason, ...],
        surplus: Sequence[ReplicaSet] = (),
        *,
        requeue_after: float | None = None,
        is_progress: bool = False,
    ) -> Outcome:
        """Delete surplus old replica sets, then write status and revision if needed."""

        async def write() -> None:
            for each in surplus:
                await self._delete(each)
            if is_progress:
                self._times.reported(key_of(reported), reported.status)
            known = self.objects.by_key(key_of(reported))
            if known is None or (
                known.metadata == reported.metadata
                and is_same(known.status, reported.status)
            ):
                return
            with suppress(errors.NotFound):
                await self._write_status(reported)

        failed = await failure_of(write(), requeue_after)
        return failed or Done(requeue_after, reasons)

    async def _write_status(self, deployment: Deployment) -> None:
        await self.client.update_for_metadata(DEPLOYMENTS, deployment, "status")

    async def _patch(
        self, replica_set: ReplicaSet, patch: Mapping[str, Any]
    ) -> ReplicaSet:
        """Patch this version; raise Conflict if the replica set has changed."""
        metadata = replica_set.metadata
        version = {"resourceVersion": metadata.resource_version}
        changed = {**patch, "metadata": {**patch.get("metadata", {}), **version}}
        return await self.client.patch(
            REPLICASETS, metadata.namespace, metadata.name, changed, PatchType.MERGE
        )

    async def _delete(self, replica_set: ReplicaSet) -> None:
        name = replica_set.metadata.name
        self.logger.v(4).info("Deleting old replica set", replica_set=name)
        with suppress(errors.NotFound):
            await self.client.delete_exactly(
                REPLICASETS, replica_set, same_version=True
            )

    def _scaled(
        self, deployment: Deployment, replica_set: ReplicaSet, before: int, after: int
    ) -> None:
        if before != after:
            name, way = replica_set.metadata.name, "up" if after > before else "down"
            message = f"Scaled {way} replica set {name} from {before} to {after}"
            self._record(deployment, "ScalingReplicaSet", message)

    def _record(self, deployment: Deployment, reason: str, message: str) -> None:
        self.recorder.event(DEPLOYMENTS, deployment, NORMAL, reason, message)

    def _warn(self, deployment: Deployment, reason: str, message: str) -> None:
        self.recorder.event(DEPLOYMENTS, deployment, WARNING, reason, message)


def _candidate(rollout: Rollout) -> ReplicaSet:
    deployment, old = rollout.deployment, rollout.old
    annotations = {
        **revisions.synced_annotations(deployment, {}, revisions.max_revision(old) + 1),
        **scaling.size_annotations_of(deployment),
    }
    size = scaling.new_replica_set_size(deployment, old, 0)
    return new_replica_set(deployment, size, annotations)
