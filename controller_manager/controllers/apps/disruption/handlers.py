"""Finds the budgets that a change of a pod or of its owner's scale affects."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from controller_manager.api.apps.v1 import (
    Deployment,
    ReplicaSet,
)
from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.meta import KubeObject, is_deleting, key_of
from controller_manager.api.pods import is_ready
from controller_manager.api.policy.v1 import PodDisruptionBudget
from controller_manager.api.workloads import Workload
from controller_manager.client.events import WARNING
from controller_manager.informers.dispatch import Handler
from controller_manager.informers.lister import Lister
from controller_manager.runtime.context import ControllerContext

from .owners import OwnerScales
from .selectors import budgets_of

AddKey = Callable[[str], None]


class BudgetHandlers:
    """Adds the keys of the budgets whose numbers a change may affect.

    Upstream adds only one of a pod's budgets at each change of the pod. It adds none
    when the owner of the pod is scaled: the status changes with the next pod only.
    """

    def __init__(
        self,
        context: ControllerContext,
        budgets: Lister[PodDisruptionBudget],
        pods: Lister[Pod],
        owners: OwnerScales,
        add: AddKey,
    ) -> None:
        """Take the listers, and the function that adds a key."""
        self._recorder = context.recorder
        self._budgets = budgets
        self._pods = pods
        self._owners = owners
        self._add = add
        self._leads = False

    def of_pods(self) -> Handler[Pod]:
        """Return the handler of pods."""
        return Handler(self._pod_added, self._pod_updated, self._pod_added)

    # The cache may show an owner later than its pods.

    def of_deployments(self) -> Handler[Deployment]:
        """Return the handler of deployments."""
        return Handler(self._add_budgets_of_deployment, self._deployment_scaled)

    def of_replica_sets(self) -> Handler[ReplicaSet]:
        """Return the handler of replica sets."""
        return Handler(self._add_budgets_of_pods, self._replica_set_scaled)

    def of_owners(self) -> Handler[Any]:
        """Return the handler of other owners of pods."""
        return Handler(self._add_budgets_of_pods, self._scaled)

    def start_leading(self) -> None:
        """Record events from now on; before this, another process leads."""
        self._leads = True

    def record_shared_pods(self) -> Iterator[None]:
        """Record an event for each pod that has several budgets; one pod a step."""
        if len(self._budgets) <= 1:
            return
        for pod in self._pods.all():
            self._budgets_of_pod(pod)
            yield

    def _budgets_of_pod(self, pod: Pod) -> list[PodDisruptionBudget]:
        """Return the budgets of a pod; record an event if there are several."""
        if not len(self._budgets):
            return []
        found = budgets_of(pod, self._budgets)
        if len(found) > 1 and self._leads:
            message = (
                f'Pod "{pod.metadata.namespace}"/"{pod.metadata.name}" matches '
                "multiple PodDisruptionBudgets.  Chose "
                f'"{found[0].metadata.name}" arbitrarily.'
            )
            reason = "MultiplePodDisruptionBudgets"
            self._recorder.event(PODS, pod, WARNING, reason, message)
        return found

    def _pod_added(self, pod: Pod) -> None:
        self._add_all(self._budgets_of_pod(pod))

    def _pod_updated(self, old: Pod, new: Pod) -> None:
        found = self._budgets_of_pod(new)
        if old.metadata.labels != new.metadata.labels:
            self._add_all(budgets_of(old, self._budgets))
        elif not found or _count_the_same(old, new):
            return
        self._add_all(found)

    def _scaled(self, old: Workload, new: Workload) -> None:
        if old.spec.replicas != new.spec.replicas:
            self._add_budgets_of_pods(new)

    def _replica_set_scaled(self, old: ReplicaSet, new: ReplicaSet) -> None:
        """Add the budgets if the replica set has no deployment, or another one.

        The scale of a replica set does not count while it has a deployment.
        """
        if old.metadata.owner_references != new.metadata.owner_references:
            self._add_budgets_of_pods(new)
        elif self._owners.deployments.controller_of(new) is None:
            self._scaled(old, new)

    def _deployment_scaled(self, old: Deployment, new: Deployment) -> None:
        if old.spec.replicas != new.spec.replicas:
            self._add_budgets_of_deployment(new)

    def _add_budgets_of_deployment(self, deployment: Deployment) -> None:
        for replica_set in self._owners.replica_sets.controlled_by(deployment):
            self._add_budgets_of_pods(replica_set)

    def _add_budgets_of_pods(self, owner: KubeObject) -> None:
        """Add the budgets of an owner's pods, most of which have the same labels.

        Does nothing before this process leads: then all budgets are added anyway.
        """
        if not self._leads:
            return
        by_labels: dict[frozenset[tuple[str, str]], Pod] = {}
        for pod in self._pods.controlled_by(owner):
            labels = frozenset((pod.metadata.labels or {}).items())
            by_labels.setdefault(labels, pod)
        for pod in by_labels.values():
            self._add_all(budgets_of(pod, self._budgets))

    def _add_all(self, budgets: Iterable[PodDisruptionBudget]) -> None:
        for budget in budgets:
            self._add(key_of(budget))


def _count_the_same(old: Pod, new: Pod) -> bool:
    """Tell whether two versions of a pod count the same in the status of a budget."""
    return (
        old.metadata.uid == new.metadata.uid
        and is_deleting(old) == is_deleting(new)
        and is_ready(old) == is_ready(new)
        and old.metadata.owner_references == new.metadata.owner_references
    )
