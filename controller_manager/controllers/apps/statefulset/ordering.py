"""Which pods a sync creates, changes and deletes, as a pure function.

A sync goes through these phases:

1. Each wanted ordinal, from the lowest on: a pod that has ended is deleted, a missing
   one is created, the identity of the others is restored. A pod that failed as soon as
   it existed may have to wait before it is replaced.
2. The owners of the claims of condemned pods, which are outside of the wanted
   ordinals, are corrected.
3. Condemned pods are deleted, from the highest ordinal on.
4. The rolling update deletes pods of another revision, from the highest on.

With OrderedReady a pod that is not available ends the sync. So at most one pod is
created or deleted, and the event of that pod causes the next sync. With Parallel a
phase changes all pods at the same time, and only an error ends the sync.

Upstream: updateStatefulSet, processReplica and processCondemned of
stateful_set_control.go.
"""

from collections.abc import Iterable
from datetime import datetime

from msgspec import Struct

from controller_manager.api.apps.v1 import STATEFUL_SETS
from controller_manager.api.core.claims import CLAIMS
from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.meta import is_deleting
from controller_manager.api.pods import is_available, is_terminal, next_availability
from controller_manager.runtime.outcome import Reason, earliest, waiting

from . import identity
from .identity import ClaimChanges
from .replicas import Replicas, Slot, is_running_and_ready
from .rolling_update import (
    next_stuck_pod,
    outdated_pods,
    revision_for,
    seconds_until_broken,
)


class PodWork(Struct, frozen=True):
    """The writes for one wanted ordinal.

    A missing pod is created from `revision`, after its claims. A pod that has ended is
    deleted. Any other pod gets missing claims while it is pending, and its claims get
    their owners; with `restores_identity` it gets its labels back.
    """

    slot: Slot
    revision: str = ""
    claims: ClaimChanges = ClaimChanges()
    restores_identity: bool = False


class Plan(Struct, frozen=True):
    """The writes of a sync, in this order, and the reason why the set waits.

    - `wanted` ordinals are worked on;
    - `corrections` are condemned pods with the changes that their claims need;
    - `condemned` pods are deleted;
    - `replaced` pods are deleted, so that new ones are created by the next sync;
    - `refused` names cannot be used: a pod of another owner has them. This is a
      failure, so it comes last: a name in use stops no other pod.
    """

    wanted: tuple[PodWork, ...] = ()
    corrections: tuple[tuple[Pod, ClaimChanges], ...] = ()
    condemned: tuple[Pod, ...] = ()
    replaced: tuple[Pod, ...] = ()
    refused: tuple[str, ...] = ()
    reason: Reason | None = None

    @property
    def has_writes(self) -> bool:
        """True if the sync has something to do."""
        deletes = self.condemned or self.replaced
        return bool(self.wanted or self.corrections or deletes or self.refused)

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """Why the set waits; a sync that writes has no reason."""
        return () if self.reason is None or self.has_writes else (self.reason,)


def plan_sync(replicas: Replicas, now: datetime) -> Plan:
    """Return the writes of a sync; there are none for a set that is being deleted.

    Raises IntOrStringError for a maxUnavailable that the API server does not allow.
    """
    if is_deleting(replicas.stateful_set):
        return Plan()
    plan = _all_at_once if replicas.is_parallel else _in_order
    return plan(replicas, now)


def seconds_until_change(replicas: Replicas, now: datetime) -> float | None:
    """Return the seconds until a sync has something to do without an event."""
    if is_deleting(replicas.stateful_set):
        return None
    delays = [seconds_until_broken(replicas, now), *replicas.held.values()]
    if seconds := replicas.min_ready_seconds:
        delays.append(next_availability(replicas.pods, seconds, now))
    return earliest(*delays)


def _in_order(replicas: Replicas, now: datetime) -> Plan:
    """Plan for OrderedReady: the first pod that is not available ends the sync."""
    wanted: list[PodWork] = []
    for slot in replicas.slots:
        is_alive = slot.pod is not None and not is_terminal(slot.pod)
        if is_alive and (stuck := next_stuck_pod(replicas, slot, now)) is not None:
            return Plan(tuple(wanted), replaced=(stuck,))
        work, reason = plan_slot(replicas, slot, now)
        if work is not None:
            wanted.append(work)
        if reason is not None or not is_alive:
            refused = tuple(_refused(replicas, (slot,)))
            return Plan(tuple(wanted), refused=refused, reason=reason)
    corrections = _owner_corrections(replicas)
    if replicas.condemned:
        pod, reason = _next_condemned(replicas, now)
        condemned = () if pod is None else (pod,)
        return Plan(tuple(wanted), corrections, condemned, reason=reason)
    return Plan(tuple(wanted), replaced=tuple(outdated_pods(replicas, now)))


def _all_at_once(replicas: Replicas, now: datetime) -> Plan:
    """Plan for Parallel: pods do not wait for each other, except in an update."""
    works = (plan_slot(replicas, slot, now)[0] for slot in replicas.slots)
    return Plan(
        tuple(work for work in works if work is not None),
        _owner_corrections(replicas),
        tuple(pod for pod in replicas.condemned if not is_deleting(pod)),
        tuple(outdated_pods(replicas, now)),
        tuple(_refused(replicas, replicas.slots)),
    )


def plan_slot(
    replicas: Replicas, slot: Slot, now: datetime
) -> tuple[PodWork | None, Reason | None]:
    """Return the writes for a wanted ordinal, and why the next ordinals wait for it."""
    pod = slot.pod
    if pod is None:
        if (reason := _not_created_because(replicas, slot)) is not None:
            return None, reason
        revision = revision_for(replicas, slot.ordinal)
        return PodWork(slot, revision, _claim_changes(replicas, slot)), None
    if is_terminal(pod):
        stays = is_deleting(pod) or slot.name in replicas.held
        return (None if stays else PodWork(slot)), waiting(
            PODS, pod, "this pod to be gone"
        )
    reason = None
    if not replicas.is_parallel:
        reason = _unavailable_because(replicas, pod, now)
    claims = _claim_changes(replicas, slot)
    if pod.status.phase != "Pending":
        # A running pod has its claims, or will never need them.
        claims = claims.of_owners() if reason is None else ClaimChanges()
    restores = reason is None and not identity.has_identity(pod)
    if not (claims.is_needed or restores):
        return None, reason
    return PodWork(slot, claims=claims, restores_identity=restores), reason


def _claim_changes(replicas: Replicas, slot: Slot) -> ClaimChanges:
    stateful_set, claims = replicas.stateful_set, replicas.claims
    return identity.claim_changes(stateful_set, slot.ordinal, claims, slot.pod)


def _not_created_because(replicas: Replicas, slot: Slot) -> Reason | None:
    if (foreign := replicas.foreign.get(slot.name)) is not None:
        return waiting(PODS, foreign, "this pod, which is not the set's, to be deleted")
    stateful_set, claims = replicas.stateful_set, replicas.claims
    if slot.name in replicas.held:
        waiting_for = "the delay after a pod that failed at once"
        return waiting(STATEFUL_SETS, stateful_set, waiting_for)
    for name in identity.claim_names(stateful_set, slot.ordinal):
        claim = claims.get(name)
        if claim is not None and identity.will_be_deleted(
            claim, stateful_set, slot.name
        ):
            return waiting(CLAIMS, claim, "this claim to be deleted with its owner")
    return None


def _refused(replicas: Replicas, slots: Iterable[Slot]) -> list[str]:
    # Not if that pod is being deleted, or the set controlled it before: then a user has
    # changed its labels in order to release it. Upstream never reports such a name.
    return [
        slot.name
        for slot in slots
        if slot.pod is None
        and (pod := replicas.foreign.get(slot.name)) is not None
        and not is_deleting(pod)
        and not identity.has_identity(pod)
    ]


def _unavailable_because(replicas: Replicas, pod: Pod, now: datetime) -> Reason | None:
    if is_deleting(pod):
        return waiting(PODS, pod, "this pod to terminate")
    if not is_running_and_ready(pod):
        return waiting(PODS, pod, "this pod to become ready")
    if not is_available(pod, replicas.min_ready_seconds, now):
        return waiting(PODS, pod, "this pod to become available")
    return None


def _owner_corrections(replicas: Replicas) -> tuple[tuple[Pod, ClaimChanges], ...]:
    stateful_set, claims = replicas.stateful_set, replicas.claims
    changes = (
        (pod, identity.claim_changes(stateful_set, ordinal, claims, pod).of_owners())
        for pod in replicas.condemned
        if (ordinal := identity.ordinal_of(stateful_set, pod)) is not None
    )
    return tuple((pod, work) for pod, work in changes if work.owners)


def _next_condemned(
    replicas: Replicas, now: datetime
) -> tuple[Pod | None, Reason | None]:
    # One by one, the highest first. A pod that is not available waits for a lower pod
    # that is not available either. A pod that has ended neither waits nor makes others
    # wait, because it does not recover (upstream waits for it for ever).
    highest = replicas.condemned[0]
    if is_deleting(highest):
        return None, waiting(PODS, highest, "this pod to terminate")
    if _is_awaited(replicas, highest, now):
        lowest_first = reversed(replicas.condemned)
        lowest = next(each for each in lowest_first if _is_awaited(replicas, each, now))
        if lowest is not highest:
            return None, waiting(PODS, lowest, "this pod to become available")
    return highest, None


def _is_awaited(replicas: Replicas, pod: Pod, now: datetime) -> bool:
    return not is_terminal(pod) and _unavailable_because(replicas, pod, now) is not None
