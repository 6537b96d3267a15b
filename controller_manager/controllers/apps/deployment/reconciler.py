"""Watches and caches of the deployment controller.

Upstream: pkg/controller/deployment of v1.36 (deployment_controller.go). `decide`
makes the decision of a sync, and `apply` carries it out.
"""

from collections.abc import Iterable

from controller_manager.api.apps.v1 import (
    DEPLOYMENTS,
    REPLICASETS,
    Deployment,
    ReplicaSet,
)
from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.meta import key_of
from controller_manager.api.selectors import Selector
from controller_manager.control.decision import decide_and_apply
from controller_manager.control.gates import TERMINATING_REPLICAS
from controller_manager.controllers.apps.deployment.apply import DeploymentApplier
from controller_manager.controllers.apps.deployment.decide import decide
from controller_manager.controllers.apps.deployment.metrics import RolloutMetrics
from controller_manager.controllers.apps.deployment.options import DeploymentOptions
from controller_manager.controllers.apps.deployment.scaling import RECREATE
from controller_manager.controllers.apps.deployment.timing import RolloutTimes
from controller_manager.controllers.apps.deployment.view import View
from controller_manager.informers.indexes import BY_CONTROLLER
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import Outcome
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.watches import For, Maps, Owns


class DeploymentReconciler(Reconciler[Deployment]):
    """Replaces pods of old templates by pods of the current one, with replica sets."""

    queue_name = "deployment"

    def __init__(self, context: ControllerContext) -> None:
        """Take the context."""
        super().__init__(context)
        self.workers = context.config.of(DeploymentOptions).concurrent_syncs
        self._counts_terminating = context.config.features.is_enabled(
            TERMINATING_REPLICAS
        )
        self._replica_sets = self.lister(REPLICASETS)
        self._pods = context.lister(PODS, BY_CONTROLLER)
        self._applier = DeploymentApplier(
            context.client, context.recorder, context.logger, self
        )
        self._reread: dict[str, str] = {}
        """The resource versions of deployments whose replica sets were read again, by
        key."""
        self._times = RolloutTimes(context.clock, context.metrics.of(RolloutMetrics))

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
        version = deployment.metadata.resource_version
        view = View.of(
            deployment,
            is_reread=self._reread.get(key_of(deployment)) == version,
            counts_terminating=self._counts_terminating,
        )
        return await decide_and_apply(
            view, decide, self._applier, self.clock, self.logger
        )

    def forget(self, key: str) -> None:
        """Drop the state of a deployment that is gone."""
        self._reread.pop(key, None)
        self._times.forget(key)

    # The `Caches` of the applier.

    def current(self, deployment: Deployment) -> Deployment | None:
        """Return the deployment of that name as it is cached now."""
        return self.objects.by_key(key_of(deployment))

    def claimable(
        self, deployment: Deployment, selector: Selector
    ) -> Iterable[ReplicaSet]:
        """Return the deployment's replica sets, and orphans that match."""
        return (
            *self._replica_sets.controlled_by(deployment),
            *self._replica_sets.orphans(deployment.metadata.namespace, selector),
        )

    def pods_of(self, replica_sets: Iterable[ReplicaSet]) -> tuple[Pod, ...]:
        """Return the pods of these replica sets."""
        return tuple(
            pod
            for replica_set in replica_sets
            for pod in self._pods.controlled_by(replica_set)
        )

    def wait_for(self, deployment: Deployment, existing: ReplicaSet) -> None:
        """Have the deployment's key wait until the cache shows a replica set."""
        self.context.consistency.record(key_of(deployment), REPLICASETS, existing)

    def reread_deployment(self, fresh: Deployment) -> None:
        """Replace the cached deployment; wait for the cache if versions differ."""
        informer = self.context.informers.informer(DEPLOYMENTS)
        if not informer.reread(fresh):
            self.context.consistency.record(key_of(fresh), DEPLOYMENTS, fresh)

    def reread_replica_set(self, deployment: Deployment, fresh: ReplicaSet) -> None:
        """Replace the cached replica set; wait for the cache if versions differ."""
        informer = self.context.informers.informer(REPLICASETS)
        if not informer.reread(fresh):
            self.wait_for(deployment, fresh)

    def finish_reread(self, deployment: Deployment) -> None:
        """Do not read again for this version of the deployment."""
        self._reread[key_of(deployment)] = deployment.metadata.resource_version

    def record_status(self, deployment: Deployment) -> None:
        """Measure the duration of rollouts."""
        self._times.reported(key_of(deployment), deployment.status)
