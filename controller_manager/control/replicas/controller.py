"""Keeps a number of pods for replica sets and replication controllers (replica_set.go).

Upstream also uses its replica set controller for replication controllers, through
adapters that convert each object. Here both types are used directly. The metrics have
upstream's names. Upstream of the status: replica_set_utils.go.
"""

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import ClassVar, Final, TypeVar

import msgspec
from prometheus_client import CollectorRegistry, Histogram

from controller_manager.api.apps import v1
from controller_manager.api.core.v1 import (
    PODS,
    Pod,
    ReplicationController,
    ReplicationControllerCondition,
    ReplicationControllerStatus,
)
from controller_manager.api.meta import (
    controller_of,
    controller_reference,
    is_deleting,
    key_of,
    labels_of,
    metadata_of,
)
from controller_manager.api.pods import (
    is_active,
    is_available,
    is_ready,
    is_terminating,
    next_availability,
)
from controller_manager.api.scalars import format_time
from controller_manager.api.selectors import Selector, SelectorError, compile_selector
from controller_manager.client.events.recorder import WARNING
from controller_manager.control.controller_ref_manager import Claimer
from controller_manager.control.creation_delays import NO_LIMIT, FailuresAtOnce
from controller_manager.control.expectations import (
    StaleSyncs,
    State,
)
from controller_manager.control.pod_control import (
    at_once,
    pod_from_template,
)
from controller_manager.control.pod_owner import PodOwnerReconciler
from controller_manager.informers.store import BY_CONTROLLER
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import (
    DONE,
    Done,
    Failed,
    Outcome,
    earliest,
    failure_of,
)

from .ranking import age_ratios, choose_pods_to_delete

# The status of an owner that keeps a number of pods (replica_set_utils.go).

REPLICA_FAILURE: Final = "ReplicaFailure"

OwnerStatus = v1.ReplicaSetStatus | ReplicationControllerStatus
ConditionT = TypeVar(
    "ConditionT", bound=v1.ReplicaSetCondition | ReplicationControllerCondition
)


def calculate_status(
    owner: v1.ReplicaSet | ReplicationController,
    active: Sequence[Pod],
    terminating: Sequence[Pod] | None,
    failure: Exception | None,
    now: datetime,
) -> OwnerStatus:
    """Return the status of an owner, calculated from its pods.

    `failure` is the error of creating or deleting pods; the condition ReplicaFailure
    stays as it is until there is none. `terminating` is `None` if terminating pods are
    not counted (the feature gate DeploymentReplicaSetTerminatingReplicas).
    """
    counts = _counts(owner, active, now)
    reason = _failure_reason(len(active) - v1.desired_replicas(owner))
    if isinstance(owner, ReplicationController):
        make, present = ReplicationControllerCondition, owner.status.conditions
        conditions = _conditions(make, present, reason, failure, now)
        return ReplicationControllerStatus(**counts, conditions=conditions)
    return v1.ReplicaSetStatus(
        **counts,
        terminating_replicas=None if terminating is None else len(terminating),
        conditions=_conditions(
            v1.ReplicaSetCondition, owner.status.conditions, reason, failure, now
        ),
    )


def _counts(
    owner: v1.ReplicaSet | ReplicationController, active: Sequence[Pod], now: datetime
) -> dict[str, int]:
    template_labels = owner.spec.template.metadata.labels or {}
    min_ready_seconds = owner.spec.min_ready_seconds
    ready = [pod for pod in active if is_ready(pod)]
    return {
        "replicas": len(active),
        "fully_labeled_replicas": sum(
            1 for pod in active if template_labels.items() <= labels_of(pod).items()
        ),
        "ready_replicas": len(ready),
        "available_replicas": sum(
            1 for pod in ready if is_available(pod, min_ready_seconds, now)
        ),
        "observed_generation": owner.metadata.generation,
    }


def _failure_reason(surplus: int) -> str:
    if surplus == 0:
        return ""
    return "FailedCreate" if surplus < 0 else "FailedDelete"


def _conditions(
    make: type[ConditionT],
    present: tuple[ConditionT, ...] | None,
    reason: str,
    failure: Exception | None,
    now: datetime,
) -> tuple[ConditionT, ...] | None:
    others = tuple(each for each in present or () if each.type != REPLICA_FAILURE)
    if failure is None:
        return others or None
    if len(others) < len(present or ()):
        return present
    condition = make(
        type=REPLICA_FAILURE,
        status="True",
        last_transition_time=format_time(now),
        reason=reason,
        message=str(failure),
    )
    return (*others, condition)


def differs_in_substance(old: OwnerStatus, new: OwnerStatus) -> bool:
    """Tell whether more than observedGeneration has changed."""
    return _substance(old) != _substance(new)


def _substance(status: OwnerStatus) -> OwnerStatus:
    status = msgspec.structs.replace(
        status, observed_generation=0, conditions=status.conditions or None
    )
    if isinstance(status, v1.ReplicaSetStatus) and status.terminating_replicas is None:
        # No count of terminating pods means the same as a count of zero.
        return msgspec.structs.replace(status, terminating_replicas=0)
    return status


# Keeps a number of pods for replica sets and replication controllers
# (replica_set.go).

BURST_REPLICAS: Final = 500
"""The most pods that one sync creates or deletes."""


def burst(active: int, wanted: int) -> int:
    """Return how many pods to create now; to delete, if the number is negative."""
    return max(-BURST_REPLICAS, min(wanted - active, BURST_REPLICAS))


class ReplicaSetMetrics:
    """The ``replicaset_controller_*`` metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.age_ratio = Histogram(
            "replicaset_controller_sorting_deletion_age_ratio",
            "Ratio of a deleted pod's age to that of the youngest ready pod",
            buckets=(0.25, 0.5, 1, 2, 4, 8),
            registry=registry,
        )
        watched = v1.REPLICASETS, PODS
        self.stale_syncs = StaleSyncs(registry, "replicaset_controller", *watched)


OwnerT = TypeVar("OwnerT", v1.ReplicaSet, ReplicationController)


class ReplicasReconciler(PodOwnerReconciler[OwnerT]):
    """Creates and deletes pods until each owner has the number that it wants.

    A subclass names the resource of the owners in `watches` and sets the attributes
    below.
    """

    noun: ClassVar[str]
    """The word for one owner in messages."""

    counts_terminating = False
    """True if statuses have the number of terminating pods."""

    uses_deletion_costs = True
    """True if the annotation pod-deletion-cost counts."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._owners = context.lister(self.resource, BY_CONTROLLER)
        self._metrics = context.metrics.of(ReplicaSetMetrics)
        self.stale_syncs = self._metrics.stale_syncs
        self._failures = FailuresAtOnce(context.clock)
        self._server_clock = context.server_clock

    def forget(self, key: str) -> None:
        """Drop the state of a key whose owner is gone."""
        super().forget(key)
        self._failures.forget(key)

    def pod_gone(self, key: str, pod: Pod) -> None:
        """Note that a pod is gone: it may have failed before."""
        super().pod_gone(key, pod)
        self._failures.gone(key, pod)

    # The sync.

    async def reconcile(self, owner: OwnerT) -> Outcome:
        """Create or delete pods of the owner, and write its status."""
        key = key_of(owner)
        expected = self._expected(key)
        selector = self._usable_selector(owner)
        if selector is None:
            return DONE
        if expected is State.UNKNOWN:
            return await self._read_api_server(owner, selector)
        owned = self._pods.controlled_by(owner)
        active = await self._claim(owner, selector, owned)
        failure: Exception | None = None
        acted, allowed = False, NO_LIMIT
        if expected is State.FULFILLED and not is_deleting(owner):
            surplus = len(active) - v1.desired_replicas(owner)
            if surplus and self._takeover.must_recheck(owner):
                # A former leader may have made the planned changes already.
                return await self._read_api_server(owner, selector, is_takeover=True)
            if surplus < 0 or key in self._failures:
                server_now = self._server_clock.now()
                allowed = self._failures.allowance(owner, owned, server_now)
            acted, failure = await self._manage(key, owner, active, allowed.most)
        terminating: list[Pod] | None = None
        if self.counts_terminating:
            matching = (each for each in owned if selector.matches(labels_of(each)))
            terminating = [each for each in matching if is_terminating(each)]
        now = self.clock.now()
        status = calculate_status(owner, active, terminating, failure, now)
        min_ready_seconds = owner.spec.min_ready_seconds
        available_in = next_availability(active, min_ready_seconds, now)
        next_change = earliest(available_in, allowed.seconds)
        report = self._report(owner, status, acted=acted and failure is None)
        unreported = await failure_of(report, next_change)
        if unreported is not None or failure is None:
            return unreported or Done(self._requeue_after(key, next_change))
        return Failed(failure, next_change)

    def _usable_selector(self, owner: OwnerT) -> Selector | None:
        try:
            selector = compile_selector(v1.selector_of(owner))
        except SelectorError as error:
            problem = str(error)
        else:
            template_labels = owner.spec.template.metadata.labels or {}
            if selector.is_empty or selector.nothing:
                problem = "a non-empty selector is required"
            elif not selector.matches(template_labels):
                problem = "the selector does not match the labels of the pod template"
            else:
                return selector
        message = f"This {self.noun} cannot be processed: {problem}"
        self.recorder.event(self.resource, owner, WARNING, "InvalidSelector", message)
        return None

    async def _claim(
        self, owner: OwnerT, selector: Selector, owned: Sequence[Pod]
    ) -> list[Pod]:
        orphans: Sequence[Pod] = self._pods.orphans(owner.metadata.namespace, selector)
        claimer = Claimer(self.client, self.resource, PODS)
        active = [pod for pod in (*owned, *orphans) if is_active(pod)]
        return await claimer.claim(owner, selector, active)

    async def _manage(
        self, key: str, owner: OwnerT, active: Sequence[Pod], most: int | None
    ) -> tuple[bool, Exception | None]:
        # `most` limits the creations; the flag tells whether a write was tried.
        count = burst(len(active), v1.desired_replicas(owner))
        if count < 0:
            return True, await self._delete(key, owner, active, -count)
        if most is not None:
            count = min(count, most)
        if count:
            return True, await self._create(key, owner, count)
        return False, None

    async def _create(self, key: str, owner: OwnerT, count: int) -> Exception | None:
        self.logger.v(2).info("Too few replicas", creating=count)
        reference = controller_reference(owner, self.resource)
        body = pod_from_template(owner.spec.template, owner, reference)

        async def create() -> None:
            await self._pod_control.create(metadata_of(PODS), owner, body)

        self._expectations.expect(key, count)
        return await self._create_pods(key, count, create)

    async def _delete(
        self, key: str, owner: OwnerT, active: Sequence[Pod], count: int
    ) -> Exception | None:
        now = self.clock.now()
        related = self._related_pods(owner)
        chosen = choose_pods_to_delete(
            active, related, count, now, use_deletion_costs=self.uses_deletion_costs
        )
        for ratio in age_ratios(active, chosen, now):
            self._metrics.age_ratio.observe(ratio)
        self.logger.v(2).info("Too many replicas", deleting=count)

        self._expectations.expect(key, deletions={pod.metadata.uid for pod in chosen})
        _, failure = await at_once(chosen, partial(self._delete_pod, owner))
        return failure

    def _related_pods(self, owner: OwnerT) -> list[Pod]:
        """Return the pods of all owners that have the same controller as `owner`."""
        reference = controller_of(owner)
        if reference is None:
            return []
        return [
            pod
            for sibling in self._owners.controlled_by_uid(reference.uid)
            for pod in self._pods.controlled_by(sibling)
        ]

    async def _report(self, owner: OwnerT, status: OwnerStatus, *, acted: bool) -> None:
        """Write the status if it has changed.

        A status that is written right after pods were created or deleted is soon out of
        date: the sync that sees these pods writes another status. So after such writes
        (`acted`) a new observedGeneration alone is not written. This saves one write
        for each scaling.
        """
        old = owner.status
        if acted and not differs_in_substance(old, status):
            return
        if msgspec.structs.replace(old, conditions=old.conditions or None) == status:
            return
        await self._reads.update_status(msgspec.structs.replace(owner, status=status))
