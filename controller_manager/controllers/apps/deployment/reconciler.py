"""The watches and the reconcile of the deployment controller.

Upstream: pkg/controller/deployment of v1.36 (deployment_controller.go). `decide`
makes the decision of a sync, and `apply` carries it out.
"""

from collections.abc import Iterable

from controller_manager.api.apps.v1 import DEPLOYMENTS, REPLICASETS, Deployment
from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.meta import key_of
from controller_manager.control.decision import decide_and_apply
from controller_manager.control.gates import TERMINATING_REPLICAS
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import Outcome
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.watches import For, Maps, Owns

from .apply import DeploymentApplier
from .caches import Caches
from .decide import decide
from .metrics import RolloutMetrics, RolloutTimes
from .new_replica_set import reported_mutation
from .options import DeploymentOptions
from .scaling import RECREATE
from .view import View


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
