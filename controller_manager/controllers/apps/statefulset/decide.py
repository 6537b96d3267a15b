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

Upstream: updateStatefulSet of stateful_set_control.go.
"""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from controller_manager.api.core.v1 import Pod
from controller_manager.api.meta import is_deleting
from controller_manager.api.pods import next_availability
from controller_manager.control.decision import Decision, Step
from controller_manager.runtime.outcome import Reason

from .actions import (
    Action,
    Change,
    ClaimChanges,
    CorrectOwners,
    DeletePod,
    InTurn,
    RefusePod,
    StatefulSetDecision,
    StatefulSetStep,
    Together,
)
from .replicas import (
    PodPlan,
    claim_changes,
    plan_condemned,
    plan_highest_condemned,
    plan_slot,
)
from .rolling_update import next_stuck_pod, outdated_pods, seconds_until_broken
from .status import calculate_status
from .view import Slot, View


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
