"""Handlers, sync and writes of the deployment controller.

Answers to pkg/controller/deployment of v1.36 (deployment_controller.go,
sync.go, rollback.go).
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from controller_manager.api.apps.v1 import (
    DEPLOYMENTS,
    REPLICASETS,
    Deployment,
    ReplicaSet,
)
from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.meta import (
    annotations_of,
    is_deleting,
    key_of,
)
from controller_manager.api.owners import controller_of, is_controlled_by
from controller_manager.api.selectors import Selector, SelectorError, compile_selector
from controller_manager.api.workloads import desired_replicas
from controller_manager.client.client import DeleteOptions, PatchType
from controller_manager.client.errors import (
    AlreadyExists,
    APIError,
    NotFound,
    TransportError,
    is_about,
    is_namespace_terminating,
)
from controller_manager.client.events import NORMAL, WARNING
from controller_manager.control.claims import Claimer
from controller_manager.control.gates import TERMINATING_REPLICAS
from controller_manager.controllers.apps.deployment import rollback
from controller_manager.controllers.apps.deployment.metrics import RolloutMetrics
from controller_manager.controllers.apps.deployment.options import DeploymentOptions
from controller_manager.controllers.apps.deployment.progress import (
    FOUND_NEW_REPLICA_SET,
    NEW_REPLICA_SET_CREATED,
    REPLICA_SET_CREATE_ERROR,
    has_deadline,
    is_complete,
    next_progress_check,
    note_pause,
    rollout_status,
)
from controller_manager.controllers.apps.deployment.recreate import (
    old_pods_running,
    plan_growing,
    plan_shrinking,
)
from controller_manager.controllers.apps.deployment.revisions import (
    REVISION,
    Rollout,
    equal_ignoring_hash,
    find_rollout,
    max_revision,
    may_be_equal,
    new_replica_set,
    size_annotations,
    superfluous,
    synced_annotations,
)
from controller_manager.controllers.apps.deployment.rolling import plan_rolling
from controller_manager.controllers.apps.deployment.scaling import (
    RECREATE,
    ROLLING_UPDATE,
    Plan,
    Resize,
    is_scaling_event,
    max_total,
    new_replica_set_size,
    plan_scaling,
)
from controller_manager.controllers.apps.deployment.status import (
    PROGRESSING,
    Draft,
    calculate_status,
    condition,
    find_condition,
    is_same,
)
from controller_manager.controllers.apps.deployment.timing import RolloutTimes
from controller_manager.informers.indexes import (
    BY_CONTROLLER,
    BY_SELECTED_LABEL,
    ORPHANS,
    ORPHANS_BY_LABEL,
)
from controller_manager.informers.informer import Handler
from controller_manager.runtime.consistency import STALE_RECHECK
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.controller import Controller
from controller_manager.runtime.outcome import DONE, Done, Outcome, Requeue

_SCALING: Final = "ScalingReplicaSet"


def init_deployment_controller(context: ControllerContext) -> Controller:
    """Wire the controller to its informers (startDeploymentController)."""
    controller = DeploymentController(context)
    count = context.config.of(DeploymentOptions).concurrent_syncs
    return context.workers(
        controller.queue, controller.sync, count, on_start=controller.enqueue_all
    )


class DeploymentController:
    """Moves pods from old templates to the current one, through replica sets."""

    def __init__(self, context: ControllerContext) -> None:
        """Take the context and watch deployments, replica sets and pods."""
        self.queue = context.queue("deployment")
        self._client = context.client
        self._clock = context.clock
        self._logger = context.logger
        self._recorder = context.recorder
        gates = context.config.features
        self._counts_terminating = gates.is_enabled(TERMINATING_REPLICAS)
        self._deployments = context.informers.informer(DEPLOYMENTS)
        self._replica_sets = context.informers.informer(REPLICASETS)
        self._deployment_lister = context.lister(DEPLOYMENTS, BY_SELECTED_LABEL)
        self._replica_set_lister = context.lister(
            REPLICASETS, BY_CONTROLLER, ORPHANS, ORPHANS_BY_LABEL
        )
        self._pod_lister = context.lister(PODS, BY_CONTROLLER)
        self._consistency = context.consistency
        self._looked_again: dict[str, str] = {}
        """Versions of deployments whose replica sets were read again, by key."""
        self._times = RolloutTimes(context.clock, context.metrics.of(RolloutMetrics))
        self._deployments.add_handler(
            Handler(
                on_add=self._enqueue,
                on_update=lambda _, new: self._enqueue(new),
                on_delete=self._enqueue,
            )
        )
        self._replica_sets.add_handler(
            Handler(
                on_add=self._replica_set_added,
                on_update=self._replica_set_updated,
                on_delete=self._replica_set_deleted,
            )
        )
        pods = context.informers.informer(PODS)
        pods.add_handler(Handler(on_delete=self._pod_deleted))

    def enqueue_all(self) -> Iterator[None]:
        """Begin to act: look at every deployment once."""
        for deployment in self._deployments.store:
            self._enqueue(deployment)
            yield

    # From changes to keys.

    def _enqueue(self, deployment: Deployment) -> None:
        self.queue.add(key_of(deployment))

    def _manager_of(self, replica_set: ReplicaSet) -> Deployment | None:
        return self._deployment_lister.controller_of(replica_set)

    def _replica_set_added(self, replica_set: ReplicaSet) -> None:
        if is_deleting(replica_set):
            self._replica_set_deleted(replica_set)
        elif controller_of(replica_set) is None:
            self._orphan_changed(replica_set)
        elif (deployment := self._manager_of(replica_set)) is not None:
            self._enqueue(deployment)

    def _orphan_changed(self, replica_set: ReplicaSet) -> None:
        for deployment in self._deployment_lister.selecting(replica_set):
            self._enqueue(deployment)

    def _replica_set_updated(self, old: ReplicaSet, new: ReplicaSet) -> None:
        handed_over = controller_of(old) != controller_of(new)
        if handed_over and (former := self._manager_of(old)) is not None:
            self._enqueue(former)
        if controller_of(new) is None:
            if handed_over or old.metadata.labels != new.metadata.labels:
                self._orphan_changed(new)
        elif (deployment := self._manager_of(new)) is not None:
            self._enqueue(deployment)

    def _replica_set_deleted(self, replica_set: ReplicaSet) -> None:
        if (deployment := self._manager_of(replica_set)) is not None:
            self._enqueue(deployment)

    def _pod_deleted(self, pod: Pod) -> None:
        """Wake a Recreate deployment, which waits for its last old pod."""
        replica_set = self._replica_set_lister.controller_of(pod)
        if replica_set is None:
            return
        deployment = self._manager_of(replica_set)
        if deployment is not None and deployment.spec.strategy.type == RECREATE:
            self._enqueue(deployment)

    # From a key to writes.

    async def sync(self, key: str) -> Outcome:
        """Take the rollout of the deployment of `key` one step further."""
        deployment = self._deployments.store.get(key)
        if deployment is None:
            self._consistency.forget(key)
            self._looked_again.pop(key, None)
            self._times.forget(key)
            return DONE
        selector = await self._usable_selector(deployment)
        if selector is None:
            return DONE
        rollout = await self._claim(deployment, selector)
        draft = Draft.of(deployment)
        if is_deleting(deployment):
            return await self._report_sizes(key, rollout, draft)
        if rollout.new is None and await self._is_outdated(key, rollout):
            return Requeue(0.0, "the cache shows what another API server showed")
        note_pause(draft, self._clock.now())
        revision = rollback.requested_revision(deployment)
        if revision is not None and not deployment.spec.paused:
            return await self._roll_back(rollout, draft, revision)
        rollout = await self._sync_revision(rollout, draft)
        if deployment.spec.paused or is_scaling_event(rollout):
            return await self._scale(key, rollout, draft)
        match deployment.spec.strategy.type:
            case "Recreate":
                return await self._recreate(key, rollout, draft)
            case "RollingUpdate":
                return await self._rolling_update(key, rollout, draft)
            case other:
                self._warn(
                    deployment,
                    "InvalidStrategy",
                    f"This deployment cannot be processed: unexpected deployment "
                    f"strategy type: {other!r}; use {RECREATE} or {ROLLING_UPDATE}",
                )
                return DONE

    async def _usable_selector(self, deployment: Deployment) -> Selector | None:
        """Return the selector; warn, and return `None`, if it cannot be used."""
        try:
            selector = compile_selector(deployment.spec.selector)
        except SelectorError as error:
            self._warn(
                deployment,
                "InvalidSelector",
                f"This deployment cannot be processed: {error}",
            )
            return None
        template_labels = deployment.spec.template.metadata.labels or {}
        if selector.is_empty:
            self._warn(
                deployment,
                "SelectingAll",
                "This deployment is selecting all pods. "
                "A non-empty selector is required.",
            )
            await self._observe_generation(deployment)
        elif not selector.matches(template_labels):
            self._warn(
                deployment,
                "InvalidTemplate",
                "This deployment cannot be processed: the selector does not match "
                "the labels of the pod template",
            )
        else:
            return selector
        return None

    async def _observe_generation(self, deployment: Deployment) -> None:
        generation = deployment.metadata.generation
        if deployment.status.observed_generation < generation:
            status = msgspec.structs.replace(
                deployment.status, observed_generation=generation
            )
            await self._write_status(msgspec.structs.replace(deployment, status=status))

    async def _claim(self, deployment: Deployment, selector: Selector) -> Rollout:
        owned = self._replica_set_lister.controlled_by(deployment)
        orphans = self._replica_set_lister.orphans(
            deployment.metadata.namespace, selector
        )
        claimer = Claimer(self._client, DEPLOYMENTS, REPLICASETS)
        claimed = await claimer.claim(deployment, selector, (*owned, *orphans))
        return find_rollout(deployment, claimed)

    async def _is_outdated(self, key: str, rollout: Rollout) -> bool:
        """Look again whether really no replica set has the current template.

        Cached objects may be of the current version and yet lack a default that an
        API server which was upgraded meanwhile shows for them. Then what is cached
        is replaced, and the sync begins anew. Once for each version of a deployment.
        """
        deployment = rollout.deployment
        version = deployment.metadata.resource_version
        template = deployment.spec.template
        doubtful = [
            each for each in rollout.old if may_be_equal(each.spec.template, template)
        ]
        if not doubtful or self._looked_again.get(key) == version:
            return False
        metadata = deployment.metadata
        fresh = await self._client.get(DEPLOYMENTS, metadata.namespace, metadata.name)
        if not self._deployments.reread(fresh):
            self._consistency.note(key, DEPLOYMENTS, fresh)
        for replica_set in doubtful:
            await self._look_again_at(key, replica_set)
        self._looked_again[key] = version
        return True

    async def _look_again_at(self, key: str, replica_set: ReplicaSet) -> None:
        metadata = replica_set.metadata
        try:
            fresh = await self._client.get(
                REPLICASETS, metadata.namespace, metadata.name
            )
        except NotFound as error:
            if not is_about(error, metadata.name):
                raise
            return  # the watch will tell
        if not self._replica_sets.reread(fresh):
            self._consistency.note(key, REPLICASETS, fresh)

    # Revisions.

    async def _sync_revision(self, rollout: Rollout, draft: Draft) -> Rollout:
        """Bring annotations and revision of the new replica set up to date.

        Does nothing if there is none yet (getNewReplicaSet).
        """
        deployment, new = rollout.deployment, rollout.new
        if new is None:
            return rollout
        current = annotations_of(new.metadata)
        revision = max_revision(rollout.old) + 1
        annotations = synced_annotations(deployment, current, revision)
        min_ready_seconds = deployment.spec.min_ready_seconds
        patch: dict[str, Any] = {}
        if changed := _difference(current, annotations):
            patch["metadata"] = {"annotations": changed}
        if new.spec.min_ready_seconds != min_ready_seconds:
            patch["spec"] = {"minReadySeconds": min_ready_seconds}
        if patch:
            new = await self._patch(new, patch)
            rollout = rollout.replace(new)
        draft.revision = annotations_of(new.metadata).get(REVISION)
        if has_deadline(deployment) and not find_condition(
            draft.conditions, PROGRESSING
        ):
            message = f'Found new replica set "{new.metadata.name}"'
            now = self._clock.now()
            draft.set(
                condition(PROGRESSING, "True", FOUND_NEW_REPLICA_SET, message, now)
            )
        return rollout

    async def _ensure_new(self, rollout: Rollout, draft: Draft) -> Rollout:
        """Create the new replica set unless it exists."""
        if rollout.new is not None:
            return rollout
        deployment = rollout.deployment
        revision = max_revision(rollout.old) + 1
        size = new_replica_set_size(deployment, rollout.old, 0)
        wanted = size_annotations(desired_replicas(deployment), max_total(deployment))
        annotations = {**synced_annotations(deployment, {}, revision), **wanted}
        candidate = new_replica_set(deployment, size, annotations)
        try:
            created = await self._client.create(REPLICASETS, candidate)
        except AlreadyExists as error:
            return await self._name_taken(rollout, draft, candidate, error)
        except (APIError, TransportError) as error:
            if is_namespace_terminating(error):
                return rollout  # nothing can be created there, and nothing is wrong
            await self._creation_failed(rollout, draft, candidate, error)
            raise
        if size > 0:
            self._normal(
                deployment,
                _SCALING,
                f"Scaled up replica set {created.metadata.name} from 0 to {size}",
            )
        draft.revision = str(revision)
        if has_deadline(deployment):
            message = f'Created new replica set "{created.metadata.name}"'
            now = self._clock.now()
            draft.set(
                condition(PROGRESSING, "True", NEW_REPLICA_SET_CREATED, message, now)
            )
        return Rollout(deployment, created, rollout.old)

    async def _name_taken(
        self,
        rollout: Rollout,
        draft: Draft,
        candidate: ReplicaSet,
        error: AlreadyExists,
    ) -> Rollout:
        """Use the namesake if it is ours after all, else ask for another name."""
        deployment = rollout.deployment
        namesake = await self._client.get(
            REPLICASETS, candidate.metadata.namespace, candidate.metadata.name
        )
        if is_controlled_by(namesake, deployment) and equal_ignoring_hash(
            namesake.spec.template, deployment.spec.template
        ):
            self._consistency.note(key_of(deployment), REPLICASETS, namesake)
            found = Rollout(deployment, namesake, rollout.old)
            return await self._sync_revision(found, draft)
        collisions = (deployment.status.collision_count or 0) + 1
        status = msgspec.structs.replace(deployment.status, collision_count=collisions)
        await self._write_status(msgspec.structs.replace(deployment, status=status))
        self._logger.v(2).info(
            "Found a hash collision, bumping collisionCount", count=collisions
        )
        raise error

    async def _creation_failed(
        self,
        rollout: Rollout,
        draft: Draft,
        candidate: ReplicaSet,
        error: Exception,
    ) -> None:
        deployment = rollout.deployment
        message = (
            f'Failed to create new replica set "{candidate.metadata.name}": {error}'
        )
        self._warn(deployment, REPLICA_SET_CREATE_ERROR, message)
        if not has_deadline(deployment):
            return
        now = self._clock.now()
        draft.set(
            condition(PROGRESSING, "False", REPLICA_SET_CREATE_ERROR, message, now)
        )
        status = msgspec.structs.replace(deployment.status, conditions=draft.conditions)
        if is_same(deployment.status, status):
            return
        try:
            await self._write_status(draft.finished(status))
        except (APIError, TransportError) as secondary:
            # The failed creation is the bigger problem, and it is being raised.
            self._logger.v(2).info("Condition not written", err=str(secondary))

    # The ways to go on. Each ends by reporting, or changes a size, whose event
    # brings the next sync, which then reports.

    async def _scale(self, key: str, rollout: Rollout, draft: Draft) -> Outcome:
        if await self._apply(rollout, plan_scaling(rollout)):
            return DONE
        deployment = rollout.deployment
        if deployment.spec.paused and rollback.requested_revision(deployment) is None:
            # A rollback waits for the end of the pause, and needs its revision.
            await self._clean_up(rollout)
        return await self._report_sizes(key, rollout, draft)

    async def _rolling_update(
        self, key: str, rollout: Rollout, draft: Draft
    ) -> Outcome:
        existed = rollout.new is not None
        rollout = await self._ensure_new(rollout, draft)
        if existed and await self._apply(rollout, plan_rolling(rollout)):
            return DONE
        if existed and is_complete(rollout.deployment, rollout.deployment.status):
            await self._clean_up(rollout)
        return await self._report_progress(key, rollout, draft)

    async def _recreate(self, key: str, rollout: Rollout, draft: Draft) -> Outcome:
        if await self._apply(rollout, plan_shrinking(rollout)):
            return DONE
        if old_pods_running(rollout, self._pods_of(rollout.old)):
            return await self._report_progress(key, rollout, draft)
        existed = rollout.new is not None
        rollout = await self._ensure_new(rollout, draft)
        if existed and await self._apply(rollout, plan_growing(rollout)):
            return DONE
        if existed and is_complete(rollout.deployment, rollout.deployment.status):
            await self._clean_up(rollout)
        return await self._report_progress(key, rollout, draft)

    def _pods_of(self, replica_sets: Iterable[ReplicaSet]) -> list[Pod]:
        return [
            pod
            for replica_set in replica_sets
            for pod in self._pod_lister.controlled_by(replica_set)
        ]

    async def _roll_back(
        self, rollout: Rollout, draft: Draft, revision: int
    ) -> Outcome:
        """Put back the template of an earlier revision; drop the annotation.

        The current template gets its revision first, so that "the last one" is
        counted from it even if it was never rolled out.
        """
        deployment = rollout.deployment
        rollout = await self._sync_revision(rollout, draft)
        rollout = await self._ensure_new(rollout, draft)
        target = rollback.target_of(rollout, revision)
        metadata = deployment.metadata
        fresh = await self._client.get_json(
            DEPLOYMENTS, metadata.namespace, metadata.name
        )
        if fresh["metadata"].get("resourceVersion") != metadata.resource_version:
            return Requeue(STALE_RECHECK, "the deployment has just changed")
        if target is None:
            what = "Unable to find the revision to rollback to."
            if revision == 0:
                what = "Unable to find last revision."
            self._warn(deployment, rollback.NOT_FOUND_REASON, what)
            edited = rollback.without_request(fresh)
        elif equal_ignoring_hash(target.spec.template, deployment.spec.template):
            self._warn(
                deployment,
                rollback.UNCHANGED_REASON,
                "The rollback revision contains the same template as current "
                f'deployment "{metadata.name}"',
            )
            edited = rollback.without_request(fresh)
        else:
            edited = rollback.rolled_back(fresh, target)
        await self._client.update_json(DEPLOYMENTS, edited)
        if edited["spec"] is not fresh["spec"] and target is not None:
            number = annotations_of(target.metadata).get(REVISION)
            self._normal(
                deployment,
                rollback.DONE_REASON,
                f'Rolled back deployment "{metadata.name}" to revision {number}',
            )
        return DONE

    # Writes.

    async def _apply(self, rollout: Rollout, plan: Plan) -> bool:
        """Carry out a plan; tell whether anything had to be written."""
        written = False
        for resize in plan:
            written |= await self._resize(rollout.deployment, resize)
        return written

    async def _resize(self, deployment: Deployment, resize: Resize) -> bool:
        replica_set = resize.replica_set
        before, after = desired_replicas(replica_set), resize.replicas
        wanted = size_annotations(desired_replicas(deployment), max_total(deployment))
        current = annotations_of(replica_set.metadata)
        patch: dict[str, Any] = {}
        if changed := _difference(current, {**current, **wanted}):
            patch["metadata"] = {"annotations": changed}
        if before != after:
            patch["spec"] = {"replicas": after}
        if not patch:
            return False
        await self._patch(replica_set, patch)
        if before != after:
            direction = "up" if after > before else "down"
            self._normal(
                deployment,
                _SCALING,
                f"Scaled {direction} replica set {replica_set.metadata.name} "
                f"from {before} to {after}",
            )
        return True

    async def _patch(
        self, replica_set: ReplicaSet, patch: dict[str, Any]
    ) -> ReplicaSet:
        """Patch this very version; raises Conflict if it has changed."""
        metadata = {
            **patch.get("metadata", {}),
            "resourceVersion": replica_set.metadata.resource_version,
        }
        return await self._client.patch(
            REPLICASETS,
            replica_set.metadata.namespace,
            replica_set.metadata.name,
            {**patch, "metadata": metadata},
            PatchType.MERGE,
        )

    async def _clean_up(self, rollout: Rollout) -> None:
        """Delete old replica sets beyond revisionHistoryLimit."""
        for replica_set in superfluous(rollout):
            metadata = replica_set.metadata
            self._logger.v(4).info(
                "Deleting old replica set", replica_set=metadata.name
            )
            options = DeleteOptions(
                uid=metadata.uid, resource_version=metadata.resource_version
            )
            try:
                await self._client.delete(
                    REPLICASETS, metadata.namespace, metadata.name, options
                )
            except NotFound:
                continue

    async def _report_sizes(self, key: str, rollout: Rollout, draft: Draft) -> Outcome:
        """Write the status without judging progress (syncDeploymentStatus)."""
        status = calculate_status(
            rollout, draft, self._clock.now(), terminating=self._counts_terminating
        )
        await self._write_if_new(key, draft.finished(status))
        return DONE

    async def _report_progress(
        self, key: str, rollout: Rollout, draft: Draft
    ) -> Outcome:
        """Write the status with the condition Progressing (syncRolloutStatus)."""
        now = self._clock.now()
        status = calculate_status(
            rollout, draft, now, terminating=self._counts_terminating
        )
        status = rollout_status(rollout, draft, status, now)
        self._times.reported(key, status)
        await self._write_if_new(key, draft.finished(status))
        return Done(next_progress_check(rollout.deployment, status, now))

    async def _write_if_new(self, key: str, deployment: Deployment) -> None:
        known = self._deployments.store.get(key)
        if known is None or (
            known.metadata == deployment.metadata
            and is_same(known.status, deployment.status)
        ):
            return
        try:
            await self._write_status(deployment)
        except NotFound:
            return  # it has just gone

    async def _write_status(self, deployment: Deployment) -> None:
        await self._client.update(DEPLOYMENTS, deployment, "status")

    def _normal(self, deployment: Deployment, reason: str, message: str) -> None:
        self._recorder.event(DEPLOYMENTS, deployment, NORMAL, reason, message)

    def _warn(self, deployment: Deployment, reason: str, message: str) -> None:
        self._recorder.event(DEPLOYMENTS, deployment, WARNING, reason, message)


def _difference(
    current: Mapping[str, str], wanted: Mapping[str, str]
) -> dict[str, str]:
    """Return the entries of `wanted` that `current` lacks or has otherwise."""
    return {key: value for key, value in wanted.items() if current.get(key) != value}
