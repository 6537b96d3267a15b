"""The caches of the deployment controller, as the applier reads and updates them."""

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
from controller_manager.control.mutations import Mutations
from controller_manager.informers.indexes import BY_CONTROLLER
from controller_manager.informers.lister import Lister
from controller_manager.runtime.context import ControllerContext


class Caches:
    """The cached deployments, replica sets and pods.

    A cached object can be replaced by one that was read again from the API server. The
    caches record the versions of the deployments for which this was done.
    """

    def __init__(
        self,
        context: ControllerContext,
        deployments: Lister[Deployment],
        replica_sets: Lister[ReplicaSet],
    ) -> None:
        """Take the context and the listers; watch pods."""
        self._context = context
        self._deployments = deployments
        self._replica_sets = replica_sets
        self._pods = context.lister(PODS, BY_CONTROLLER)
        self.mutations = Mutations(context.clock)
        self._reread_versions: dict[str, str] = {}
        """The resource versions of deployments whose replica sets were read again, by
        key."""

    def current(self, deployment: Deployment) -> Deployment | None:
        """Return the deployment of that name as it is cached now."""
        return self._deployments.by_key(key_of(deployment))

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
        self._context.consistency.record(key_of(deployment), REPLICASETS, existing)

    def reread_deployment(self, fresh: Deployment) -> None:
        """Replace the cached deployment; wait for the cache if versions differ."""
        informer = self._context.informers.informer(DEPLOYMENTS)
        if not informer.reread(fresh):
            self._context.consistency.record(key_of(fresh), DEPLOYMENTS, fresh)

    def reread_replica_set(self, deployment: Deployment, fresh: ReplicaSet) -> None:
        """Replace the cached replica set; wait for the cache if versions differ."""
        informer = self._context.informers.informer(REPLICASETS)
        if not informer.reread(fresh):
            self.wait_for(deployment, fresh)

    def finish_reread(self, deployment: Deployment) -> None:
        """Record that the replica sets were read again for this version."""
        version = deployment.metadata.resource_version
        self._reread_versions[key_of(deployment)] = version

    def were_reread(self, deployment: Deployment) -> bool:
        """Tell whether the replica sets were read again for this version."""
        version = deployment.metadata.resource_version
        return self._reread_versions.get(key_of(deployment)) == version

    def forget(self, key: str) -> None:
        """Drop the state of a deployment that is gone."""
        self._reread_versions.pop(key, None)
        self.mutations.forget(key)
