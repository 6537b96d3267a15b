"""The decision of a stateful set's sync, as a pure function of its view.

A sync goes through these phases:

1. Each wanted ordinal, from the lowest on: a pod that has ended is deleted, a missing
   one is created, the identity of the others is restored.
2. The owners of the claims of condemned pods, which are outside of the wanted
   ordinals, are corrected.
3. Condemned pods are deleted, from the highest ordinal on.
4. The rolling update deletes pods of another revision, from the highest on.

With OrderedReady a pod that is not available ends the sync. So at most one pod is
created or deleted, and the event of that pod causes the next sync. With Parallel a
phase treats all pods at the same time, and only an error ends the sync.

Upstream: updateStatefulSet of stateful_set_control.go.
"""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from controller_manager.api.core.v1 import Pod
from controller_manager.api.meta import is_deleting
from controller_manager.api.pods import next_availability
from controller_manager.control.decision import Decision, Reason, Step
from controller_manager.controllers.apps.statefulset.actions import (
    Action,
    Change,
    ClaimWork,
    CorrectOwners,
    DeletePod,
    InTurn,
    RefusePod,
    StatefulSetDecision,
    StatefulSetStep,
    Together,
)
from controller_manager.controllers.apps.statefulset.replicas import (
    PodPlan,
    claim_work,
    plan_condemned,
    plan_slot,
)
from controller_manager.controllers.apps.statefulset.status import calculate_status
from controller_manager.controllers.apps.statefulset.stuck import next_evidence
from controller_manager.controllers.apps.statefulset.updating import outdated_pods
from controller_manager.controllers.apps.statefulset.view import View


class Plan(Struct, frozen=True):
    """The actions of a sync, and what the set waits for."""

    actions: tuple[Action, ...] = ()
    reasons: tuple[Reason, ...] = ()


def decide(view: View, now: datetime) -> StatefulSetStep | StatefulSetDecision:
    """Return the actions of a sync, then the decision that ends it.

    Pure, and defined for every view that the API server allows. Raises
    IntOrStringError for a maxUnavailable that it does not allow.
    """
    stateful_set = view.stateful_set
    if is_deleting(stateful_set):
        return Decision(status=calculate_status(view, now))
    plan = Plan() if view.acted else plan_sync(view, now)
    if plan.actions:
        return Step(plan.actions)
    return Decision(
        status=calculate_status(view, now),
        reasons=plan.reasons,
        next_look=_next_look(view, now),
        retry=view.failure,
    )


def _next_look(view: View, now: datetime) -> float | None:
    """Return the seconds until time alone changes the decision."""
    available = next_availability(view.pods, view.min_ready_seconds, now)
    looks = (available, next_evidence(view, now))
    return min((each for each in looks if each is not None), default=None)


def plan_sync(view: View, now: datetime) -> Plan:
    """Return the actions of a sync for a set that is not being deleted."""
    return _all_at_once(view, now) if view.is_parallel else _in_order(view, now)


def _in_order(view: View, now: datetime) -> Plan:
    """Plan for OrderedReady: the first pod that is not available ends the sync."""
    changes: list[Change] = []
    slots = view.slots()
    for slot in slots:
        plan = plan_slot(view, slot, now)
        changes += plan.changes
        if plan.ends:
            return _in_turn(changes, plan)
    condemned = view.condemned()
    changes += _owner_corrections(view, condemned)
    for pod in condemned:
        plan = plan_condemned(view, condemned, pod, now)
        return _in_turn([*changes, *plan.changes], plan)
    changes += _update(view, now)
    return _in_turn(changes, PodPlan())


def _in_turn(changes: Sequence[Change], last: PodPlan) -> Plan:
    actions = (InTurn(tuple(changes)),) if changes else ()
    return Plan(actions, (last.reason,) if last.reason is not None else ())


def _all_at_once(view: View, now: datetime) -> Plan:
    """Plan for Parallel: pods do not wait for each other, except in an update."""
    condemned = view.condemned()
    plans = [plan_slot(view, slot, now).changes for slot in view.slots()]
    refused = [each for changes in plans if _refuses(changes) for each in changes]
    groups = (
        [changes for changes in plans if not _refuses(changes)],
        [(change,) for change in _owner_corrections(view, condemned)],
        [plan_condemned(view, condemned, pod, now).changes for pod in condemned],
    )
    busy = (tuple(changes for changes in group if changes) for group in groups)
    actions: list[Action] = [Together(each) for each in busy if each]
    # A refusal fails, so it comes last: a name that is in use stops no other pod.
    if last := (*_update(view, now), *refused):
        actions.append(InTurn(last))
    return Plan(tuple(actions))


def _refuses(changes: Sequence[Change]) -> bool:
    return any(isinstance(each, RefusePod) for each in changes)


def _owner_corrections(view: View, condemned: Sequence[Pod]) -> list[Change]:
    corrections: list[Change] = []
    for pod in condemned:
        work = claim_work(view, pod)
        if work.owners:
            work = ClaimWork(owners=work.owners, conflicts=work.conflicts)
            corrections.append(CorrectOwners(pod, work))
    return corrections


def _update(view: View, now: datetime) -> list[Change]:
    outdated = outdated_pods(view, view.slots(), now)
    return [DeletePod(pod, for_update=True) for pod in outdated]
