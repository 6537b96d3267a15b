"""The decision of a stateful set's sync, as a pure function of its view.

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

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from controller_manager.api.apps.v1 import STATEFUL_SETS
from controller_manager.api.core.claims import CLAIMS
from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.meta import KubeObject, is_deleting
from controller_manager.api.pods import is_available, is_terminal, next_availability
from controller_manager.control.decision import Decision, Step, reference_to
from controller_manager.runtime.outcome import Reason

from .actions import (
    Action,
    Change,
    ClaimChanges,
    CompleteClaims,
    CorrectOwners,
    CreatePod,
    DeletePod,
    InTurn,
    RefusePod,
    StatefulSetDecision,
    StatefulSetStep,
    Together,
    UpdatePod,
)
from .claim_retention import (
    corrected_owners,
    deletes_scaled,
    has_conflict,
    is_owned_by_former_pod,
    is_stale,
)
from .claims import claim_names, deleting_claims, missing_claims, used_claims
from .identity import has_identity, ordinal_of
from .pods import is_running_and_ready
from .rolling_update import (
    next_stuck_pod,
    outdated_pods,
    revision_for,
    seconds_until_broken,
)
from .status import calculate_status
from .view import Slot, View


class PodPlan(Struct, frozen=True):
    """The changes for one pod; with `ends`, the pods after it must wait for it."""

    changes: tuple[Change, ...] = ()
    ends: bool = False
    reason: Reason | None = None


def plan_slot(
    view: View, slot: Slot, now: datetime, stuck: Pod | None = None
) -> PodPlan:
    """Return the changes for a wanted ordinal.

    `stuck` is a pod to replace instead of waiting for this one (`next_stuck_pod`). If
    pods need not wait for each other, `ends` has no meaning.
    """
    pod = slot.pod
    if pod is None:
        return _plan_new(view, slot)
    if is_terminal(pod):
        stays = is_deleting(pod) or slot.name in view.held
        deletes = () if stays else (DeletePod(pod),)
        return PodPlan(deletes, ends=True, reason=_wait(pod, "this pod to be gone"))
    if stuck is not None:
        return PodPlan((DeletePod(stuck, for_update=True),), ends=True)
    changes: tuple[Change, ...] = ()
    claims = claim_changes(view, pod)
    if pod.status.phase == "Pending" and claims.is_needed:
        changes = (CompleteClaims(pod, claims),)
    if not view.is_parallel and (reason := _unavailable_because(view, pod, now)):
        return PodPlan(changes, ends=True, reason=reason)
    return PodPlan((*changes, *_restoration(slot.ordinal, pod, claims)))


def _plan_new(view: View, slot: Slot) -> PodPlan:
    """Create the pod, unless it must wait, or its name or a claim is in use."""
    if (foreign := view.foreign.get(slot.name)) is not None:
        return _plan_foreign(foreign)
    if slot.name in view.held:
        reference = reference_to(STATEFUL_SETS, view.stateful_set)
        reason = Reason("the delay after a pod that failed at once", None, reference)
        return PodPlan(ends=True, reason=reason)
    names = claim_names(view.stateful_set, slot.ordinal)
    present = [view.claims[name] for name in names if name in view.claims]
    for claim in present:
        if _will_be_deleted(view, slot, claim):
            reference = reference_to(CLAIMS, claim)
            reason = Reason("this claim to be deleted with its owner", None, reference)
            return PodPlan(ends=True, reason=reason)
    missing = missing_claims(view.stateful_set, slot.ordinal, view.claims)
    claims = ClaimChanges(
        missing=missing,
        deleting=deleting_claims(view.stateful_set, slot.ordinal, view.claims),
        conflicts=tuple(
            claim.metadata.name
            for claim in (*present, *missing)
            if has_conflict(claim, view.stateful_set, None)
        ),
    )
    revision = revision_for(view, slot.ordinal)
    create = CreatePod(slot.name, slot.ordinal, revision, claims)
    return PodPlan((create,), ends=True)


def _will_be_deleted(view: View, slot: Slot, claim: KubeObject) -> bool:
    """Tell whether the garbage collector is about to delete a claim.

    Such a claim belongs to a pod that was scaled away, or to an earlier set of the same
    name. A new pod must not start with it, because it is deleted with its owner.
    (Upstream waits only for claims of pods.)
    """
    return is_stale(claim, view.stateful_set, STATEFUL_SETS) or (
        deletes_scaled(view.stateful_set) and is_owned_by_former_pod(claim, slot.name)
    )


def _plan_foreign(pod: Pod) -> PodPlan:
    """Wait until a pod that the set does not control is deleted.

    An event reports this, unless the set controlled the pod before: then a user has
    changed its labels in order to release it. Upstream never reports it.
    """
    reason = _wait(pod, "this pod, which is not the set's, to be deleted")
    refuses = not is_deleting(pod) and not has_identity(pod)
    changes = (RefusePod(pod.metadata.name),) if refuses else ()
    return PodPlan(changes, ends=True, reason=reason)


def _unavailable_because(view: View, pod: Pod, now: datetime) -> Reason | None:
    if is_deleting(pod):
        return _wait(pod, "this pod to terminate")
    if not is_running_and_ready(pod):
        return _wait(pod, "this pod to become ready")
    if not is_available(pod, view.min_ready_seconds, now):
        return _wait(pod, "this pod to become available")
    return None


def _restoration(ordinal: int, pod: Pod, claims: ClaimChanges) -> Sequence[Change]:
    """Restore the identity of a pod, and the owners of its claims."""
    restores_identity = not has_identity(pod)
    if pod.status.phase == "Pending":
        claims = ClaimChanges()  # completed before
    else:
        # A running pod has its claims, or will never need them.
        claims = ClaimChanges(owners=claims.owners, conflicts=claims.conflicts)
    if not (restores_identity or claims.owners):
        return ()
    return (UpdatePod(pod, ordinal, claims, restores_identity),)


def claim_changes(view: View, pod: Pod) -> ClaimChanges:
    """Return the changes that the claims of a pod need.

    A claim that the pod does not use is not created, nor awaited. Its owners are
    corrected all the same.
    """
    stateful_set, claims = view.stateful_set, view.claims
    ordinal = ordinal_of(stateful_set, pod)
    if ordinal is None:
        return ClaimChanges()
    names = [name for name in claim_names(stateful_set, ordinal) if name in claims]
    used = used_claims(pod)
    missing = missing_claims(stateful_set, ordinal, claims)
    deleting = deleting_claims(stateful_set, ordinal, claims)
    return ClaimChanges(
        missing=tuple(each for each in missing if each.metadata.name in used),
        deleting=tuple(each for each in deleting if each in used),
        owners=tuple(
            name
            for name in names
            if corrected_owners(claims[name], stateful_set, pod) is not None
        ),
        conflicts=tuple(
            name for name in names if has_conflict(claims[name], stateful_set, pod)
        ),
    )


def plan_condemned(pod: Pod) -> PodPlan:
    """Return the changes for a pod outside of the wanted ordinals."""
    if is_deleting(pod):
        reason = _wait(pod, "this pod to terminate")
        return PodPlan(ends=True, reason=reason)
    return PodPlan((DeletePod(pod),), ends=True)


def plan_highest_condemned(
    view: View, condemned: Sequence[Pod], now: datetime
) -> PodPlan:
    """Return the changes for the first of `condemned` pods, deleted one by one.

    `condemned` are all pods outside of the wanted ordinals, the highest first. A pod
    that is not available waits for a lower pod that is not available either. A pod that
    has ended neither waits nor makes others wait, because it does not recover (upstream
    waits for it for ever).
    """
    pod = condemned[0]
    if not is_deleting(pod) and _is_awaited(view, pod, now):
        lowest = next(each for each in condemned[::-1] if _is_awaited(view, each, now))
        if lowest is not pod:
            reason = _wait(lowest, "this pod to become available")
            return PodPlan(ends=True, reason=reason)
    return plan_condemned(pod)


def _is_awaited(view: View, pod: Pod, now: datetime) -> bool:
    return not is_terminal(pod) and _unavailable_because(view, pod, now) is not None


def _wait(pod: Pod, waiting_for: str) -> Reason:
    return Reason(waiting_for, None, reference_to(PODS, pod))


class Plan(Struct, frozen=True):
    """The actions of a sync, and the reasons why the set waits."""

    actions: tuple[Action, ...] = ()
    reasons: tuple[Reason, ...] = ()


def decide(view: View, now: datetime) -> StatefulSetStep | StatefulSetDecision:
    """Return the actions of a sync, then the decision that ends it.

    Pure, and defined for every view that the API server allows. Raises
    IntOrStringError for a maxUnavailable that the API server does not allow.
    """
    stateful_set = view.stateful_set
    if is_deleting(stateful_set):
        return Decision(status=calculate_status(view, now))
    slots = view.slots()
    plan = Plan() if view.acted else plan_sync(view, slots, now)
    if plan.actions:
        return Step(plan.actions)
    return Decision(
        status=calculate_status(view, now),
        reasons=plan.reasons,
        requeue_after=_requeue_after(view, slots, now),
        retry=view.failure,
    )


def _requeue_after(view: View, slots: Sequence[Slot], now: datetime) -> float | None:
    """Return the seconds until the decision changes without an event."""
    delays = [seconds_until_broken(view, slots, now), *view.held.values()]
    if view.min_ready_seconds:
        delays.append(next_availability(view.pods, view.min_ready_seconds, now))
    return min((each for each in delays if each is not None), default=None)


def plan_sync(view: View, slots: Sequence[Slot], now: datetime) -> Plan:
    """Return the actions of a sync for a set that is not being deleted.

    `slots` are all wanted ordinals.
    """
    plan = _all_at_once if view.is_parallel else _in_order
    return plan(view, slots, now)


def _in_order(view: View, slots: Sequence[Slot], now: datetime) -> Plan:
    """Plan for OrderedReady: the first pod that is not available ends the sync."""
    changes: list[Change] = []
    for slot in slots:
        stuck = next_stuck_pod(view, slots, slot, now)
        plan = plan_slot(view, slot, now, stuck)
        changes += plan.changes
        if plan.ends:
            return _in_turn(changes, plan)
    condemned = view.condemned()
    changes += _owner_corrections(view, condemned)
    if condemned:
        plan = plan_highest_condemned(view, condemned, now)
        return _in_turn([*changes, *plan.changes], plan)
    changes += _update(view, slots, now)
    return _in_turn(changes, PodPlan())


def _in_turn(changes: Sequence[Change], last: PodPlan) -> Plan:
    actions = (InTurn(tuple(changes)),) if changes else ()
    return Plan(actions, (last.reason,) if last.reason is not None else ())


def _all_at_once(view: View, slots: Sequence[Slot], now: datetime) -> Plan:
    """Plan for Parallel: pods do not wait for each other, except in an update."""
    condemned = view.condemned()
    wanted: list[tuple[Change, ...]] = []
    refused: list[Change] = []
    for changes in (plan_slot(view, slot, now).changes for slot in slots):
        if _refuses(changes):
            refused += changes
        elif changes:
            wanted.append(changes)
    corrections = _owner_corrections(view, condemned)
    plans = (plan_condemned(pod).changes for pod in condemned)
    surplus = [changes for changes in plans if changes]
    groups = (wanted, [(change,) for change in corrections], surplus)
    actions: list[Action] = [Together(tuple(each)) for each in groups if each]
    # A refusal is a failure, so it comes last. So a name in use stops no other pod.
    if last := (*_update(view, slots, now), *refused):
        actions.append(InTurn(last))
    return Plan(tuple(actions))


def _refuses(changes: Sequence[Change]) -> bool:
    return any(isinstance(each, RefusePod) for each in changes)


def _owner_corrections(view: View, condemned: Sequence[Pod]) -> list[Change]:
    corrections: list[Change] = []
    for pod in condemned:
        work = claim_changes(view, pod)
        if work.owners:
            work = ClaimChanges(owners=work.owners, conflicts=work.conflicts)
            corrections.append(CorrectOwners(pod, work))
    return corrections


def _update(view: View, slots: Sequence[Slot], now: datetime) -> list[Change]:
    outdated = outdated_pods(view, slots, now)
    return [DeletePod(pod, for_update=True) for pod in outdated]
