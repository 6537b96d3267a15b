"""Handlers and caches of the deployment controller.

Answers to pkg/controller/deployment of v1.36 (deployment_controller.go). What
follows from what the caches show is decided in `decide` and done in `apply`.
"""

from collections.abc import Iterable, Iterator

from controller_manager.api.apps.v1 import (
    DEPLOYMENTS,
    REPLICASETS,
    Deployment,
    ReplicaSet,
)
from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.meta import is_deleting, key_of
from controller_manager.api.owners import controller_of
from controller_manager.api.selectors import Selector
from controller_manager.control.candidates import (
    index_orphans,
    index_selectors,
    manager_in,
    orphans_matching,
    owners_selecting,
)
from controller_manager.control.consistency import ConsistencyStore, requeue_for
from controller_manager.control.decision import decide_and_apply
from controller_manager.controllers.apps.deployment.apply import DeploymentApplier
from controller_manager.controllers.apps.deployment.decide import decide
from controller_manager.controllers.apps.deployment.scaling import RECREATE
from controller_manager.controllers.apps.deployment.timing import RolloutTimes
from controller_manager.controllers.apps.deployment.view import View
from controller_manager.informers.informer import Handler
from controller_manager.informers.store import (
    CONTROLLER_UID_INDEX,
    controller_uid_index,
)
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.controller import Controller
from controller_manager.runtime.outcome import DONE, Outcome


def init_deployment_controller(context: ControllerContext) -> Controller:
    """Wire the controller to its informers (startDeploymentController)."""
    controller = DeploymentController(context)
    count = context.config.deployment.concurrent_syncs
    return context.workers(
        controller.queue, controller.sync, count, on_start=controller.begin
    )


class DeploymentController:
    """Moves pods from old templates to the current one, through replica sets."""

    def __init__(self, context: ControllerContext) -> None:
        """Take the context and watch deployments, replica sets and pods."""
        self.queue = context.queue("deployment")
        self._clock = context.clock
        self._logger = context.logger
        self._applier = DeploymentApplier(
            context.client, context.recorder, context.logger, self
        )
        gates = context.config.features
        self._counts_terminating = gates.deployment_replica_set_terminating_replicas
        self._deployments = context.informers.informer(DEPLOYMENTS)
        self._replica_sets = context.informers.informer(REPLICASETS)
        self._pods = context.informers.informer(PODS)
        self._written = ConsistencyStore()
        self._reread: dict[str, str] = {}
        """Versions of deployments whose replica sets were read again, by key."""
        self._times = RolloutTimes(context.clock, context.metrics.rollouts)
        self._replica_sets.store.add_index(CONTROLLER_UID_INDEX, controller_uid_index)
        self._pods.store.add_index(CONTROLLER_UID_INDEX, controller_uid_index)
        index_selectors(self._deployments.store)
        index_orphans(self._replica_sets.store)
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
        self._pods.add_handler(Handler(on_delete=self._pod_deleted))

    def begin(self) -> Iterator[None]:
        """Begin to act: look at every deployment once."""
        for deployment in self._deployments.store:
            self._enqueue(deployment)
            yield

    # From changes to keys.

    def _enqueue(self, deployment: Deployment) -> None:
        self.queue.add(key_of(deployment))

    def _manager_of(self, replica_set: ReplicaSet) -> Deployment | None:
        return manager_in(self._deployments.store, DEPLOYMENTS.kind, replica_set)

    def _replica_set_added(self, replica_set: ReplicaSet) -> None:
        if is_deleting(replica_set):
            self._replica_set_deleted(replica_set)
        elif controller_of(replica_set) is None:
            self._orphan_changed(replica_set)
        elif (deployment := self._manager_of(replica_set)) is not None:
            self._enqueue(deployment)

    def _orphan_changed(self, replica_set: ReplicaSet) -> None:
        for deployment in owners_selecting(self._deployments.store, replica_set):
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
        replica_set = manager_in(self._replica_sets.store, REPLICASETS.kind, pod)
        if replica_set is None:
            return
        deployment = self._manager_of(replica_set)
        if deployment is not None and deployment.spec.strategy.type == RECREATE:
            self._enqueue(deployment)

    # From a key to what is decided.

    async def sync(self, key: str) -> Outcome:
        """Take the rollout of the deployment of `key` one step further."""
        deployment = self._deployments.store.get(key)
        if deployment is None:
            self._forget(key)
            return DONE
        if (stale := self._written.behind(key)) is not None:
            return requeue_for(stale)
        return await decide_and_apply(
            self._view_of(key, deployment),
            decide,
            self._applier,
            self._clock,
            self._logger,
        )

    def _view_of(self, key: str, deployment: Deployment) -> View:
        version = deployment.metadata.resource_version
        return View.of(
            deployment,
            is_reread=self._reread.get(key) == version,
            counts_terminating=self._counts_terminating,
        )

    def _forget(self, key: str) -> None:
        self._written.forget(key)
        self._reread.pop(key, None)
        self._times.forget(key)

    # What `apply` asks the caches, and tells them.

    def current(self, deployment: Deployment) -> Deployment | None:
        """Return the deployment of that name as it is cached now."""
        return self._deployments.store.get(key_of(deployment))

    def claimable(
        self, deployment: Deployment, selector: Selector
    ) -> Iterable[ReplicaSet]:
        """Return the replica sets that it has, and orphans that match."""
        store, metadata = self._replica_sets.store, deployment.metadata
        owned = store.by_index(CONTROLLER_UID_INDEX, metadata.uid)
        return (*owned, *orphans_matching(store, metadata.namespace, selector))

    def pods_of(self, replica_sets: Iterable[ReplicaSet]) -> tuple[Pod, ...]:
        """Return the pods that replica sets manage."""
        return tuple(
            pod
            for replica_set in replica_sets
            for pod in self._pods.store.by_index(
                CONTROLLER_UID_INDEX, replica_set.metadata.uid
            )
        )

    def wrote_deployment(self, stored: Deployment) -> None:
        """Wait with the key until the cache shows this version."""
        version = stored.metadata.resource_version
        self._written.wrote(key_of(stored), self._deployments, version)

    def wrote_replica_set(self, deployment: Deployment, stored: ReplicaSet) -> None:
        """Wait with the deployment's key until the cache shows this version."""
        version = stored.metadata.resource_version
        self._written.wrote(key_of(deployment), self._replica_sets, version)

    def reread_deployment(self, fresh: Deployment) -> None:
        """Renew what is cached; wait if it is of another version."""
        if not self._deployments.reread(fresh):
            self.wrote_deployment(fresh)

    def reread_replica_set(self, deployment: Deployment, fresh: ReplicaSet) -> None:
        """Renew what is cached; wait if it is of another version."""
        if not self._replica_sets.reread(fresh):
            self.wrote_replica_set(deployment, fresh)

    def finish_reread(self, deployment: Deployment) -> None:
        """Do not read again for this version of the deployment."""
        self._reread[key_of(deployment)] = deployment.metadata.resource_version

    def judged(self, deployment: Deployment) -> None:
        """Measure how long rollouts take."""
        self._times.reported(key_of(deployment), deployment.status)
