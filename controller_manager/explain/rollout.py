"""Explains deployments: the rollout, the new replica set, and its pods."""

from msgspec import Struct

from controller_manager.api.apps.v1 import REPLICASETS, Deployment, ReplicaSet
from controller_manager.api.conditions import find_condition
from controller_manager.api.core.v1 import Pod
from controller_manager.api.workloads import desired_replicas
from controller_manager.control.decision import Decision
from controller_manager.controllers.apps.deployment.actions import RecordEvent
from controller_manager.controllers.apps.deployment.decide import decide
from controller_manager.controllers.apps.deployment.fenceposts import (
    is_rolling_update,
    max_surge,
    max_unavailable,
)
from controller_manager.controllers.apps.deployment.progress import (
    PROGRESS_DEADLINE_EXCEEDED,
    REPLICA_SET_CREATE_ERROR,
    has_deadline,
    has_timed_out,
    is_complete,
)
from controller_manager.controllers.apps.deployment.recreate import (
    old_pods_running,
    plan_scale_down,
    plan_scale_up,
)
from controller_manager.controllers.apps.deployment.rolling_update import plan_rolling
from controller_manager.controllers.apps.deployment.scaling import (
    Plan,
    active,
    is_scaling_event,
    plan_scaling,
)
from controller_manager.controllers.apps.deployment.status import PROGRESSING
from controller_manager.controllers.apps.deployment.view import (
    Rollout,
    find_rollout,
)
from controller_manager.controllers.apps.deployment.view import (
    View as SyncView,
)
from controller_manager.explain.cause import Cause, State, symptom, worst_of
from controller_manager.explain.inaction import explain_inaction
from controller_manager.explain.items import Item
from controller_manager.explain.managed_fields import writers_of
from controller_manager.explain.replicas import explain_ending_pods, explain_replica_set
from controller_manager.explain.scaling import scaled_to_zero
from controller_manager.explain.selecting import has_all, owned, pods_of
from controller_manager.explain.spec_causes import spec_cause
from controller_manager.explain.view import View


class _Read(Struct, frozen=True):
    """A deployment, its replica sets by uid, and its rollout."""

    item: Item
    deployment: Deployment
    items: dict[str, Item]
    rollout: Rollout


async def explain_deployment(view: View, item: Item) -> tuple[Cause, ...]:
    """Return the causes for which a deployment is not as its spec wants it."""
    deployment = item.typed(Deployment)
    if refusal := refused_spec(view, item, deployment):
        return (refusal,)
    if inaction := await explain_inaction(view, item):
        return (inaction,)
    sets = await owned(view, item, REPLICASETS, deployment.spec.selector)
    rollout = find_rollout(deployment, [each.typed(ReplicaSet) for each in sets])
    read = _Read(item, deployment, {each.uid: each for each in sets}, rollout)
    if not has_all(view, item, REPLICASETS, deployment.spec.selector):
        return _without_sets(view, read)
    if deployment.spec.paused and not _is_done(read):
        return (await _paused(view, read), *await _old_trouble(view, read))
    if is_complete(deployment, deployment.status):
        return (scaled_to_zero(item),) if desired_replicas(deployment) == 0 else ()
    return (_with_deadline(view, read, await _waiting(view, read)),)


def _without_sets(view: View, read: _Read) -> tuple[Cause, ...]:
    """Return the cause that the status shows, if not all replica sets were read."""
    status, wanted = read.deployment.status, desired_replicas(read.deployment)
    if is_complete(read.deployment, status):
        return ()
    cause = Cause(
        code="RolloutWaits",
        state=State.PROGRESSING,
        what=f"{status.available_replicas} of {wanted} pods are available, and "
        f"{status.updated_replicas} have the current template",
        object=read.item.reference,
        field="status.availableReplicas",
        since=_since(read),
    )
    return (_with_deadline(view, read, cause),)


def refused_spec(view: View, item: Item, deployment: Deployment) -> Cause | None:
    """Return the cause if the controller refuses the spec of a deployment."""
    start = SyncView.of(deployment, is_reread=False, counts_terminating=True)
    decided = decide(start, view.now)
    if not isinstance(decided, Decision):
        return None
    events = [each for each in decided.actions if isinstance(each, RecordEvent)]
    return spec_cause(
        item,
        "SpecRefused",
        events[0].event.message.rstrip(".") if events else "the spec is refused",
        "spec.selector",
        "correct the selector or the template of the deployment",
    )


def _is_done(read: _Read) -> bool:
    """Tell whether all pods have the current template, and are available."""
    done = is_complete(read.deployment, read.deployment.status)
    return done and read.rollout.new is not None


async def _paused(view: View, read: _Read) -> Cause:
    writers = writers_of(read.item, "spec", "paused")
    by = f" by {writers[0].manager}" if writers else ""
    template = "the new template has no pods yet" if _is_outdated(read) else ""
    missing = "pods of the current template are not available"
    cause = Cause(
        code="Paused",
        state=State.STUCK,
        what=f"the rollout was paused{by}: {template or missing}",
        object=read.item.reference,
        field="spec.paused",
        since=writers[0].at if writers else read.item.created_at,
        remedy=f"resume it: kubectl rollout resume {_name(read.item)}",
    )
    if template or read.rollout.new is None:
        return cause
    causes = await _pods_of_new(view, read)
    # A paused deployment still replaces its pods: those that fail are a cause of
    # their own, and the pause is none.
    return symptom(_not_available(read), causes) if causes else cause


async def _old_trouble(view: View, read: _Read) -> tuple[Cause, ...]:
    """Return the causes for which old pods fail while a new template is paused.

    They serve until the rollout goes on, and nothing else would tell of them.
    """
    if not _is_outdated(read):
        return ()
    found: list[Cause] = []
    for each in active(read.rollout.old):
        found += await explain_replica_set(view, read.items[each.metadata.uid])
    return tuple(found)


def _is_outdated(read: _Read) -> bool:
    new = read.rollout.new
    return new is None or (
        desired_replicas(new) < desired_replicas(read.deployment)
        and bool(active(read.rollout.old))
    )


def _name(item: Item) -> str:
    return f"-n {item.namespace} deployment/{item.name}"


async def _waiting(view: View, read: _Read) -> Cause:
    """Return the cause for which a rollout is not complete."""
    if read.rollout.new is None:
        return await _no_new_replica_set(view, read)
    causes = [*await _pods_of_new(view, read), *await _old_pods(view, read)]
    step = _next_step(read)
    if causes and not (step and worst_of(causes) is not State.STUCK):
        return symptom(_not_available(read), causes)
    return symptom(_not_available(read), [*causes, *step])


async def _no_new_replica_set(view: View, read: _Read) -> Cause:
    """Return the cause for a deployment whose new replica set does not exist."""
    condition = find_condition(read.deployment.status.conditions, PROGRESSING)
    if condition is not None and condition.reason == REPLICA_SET_CREATE_ERROR:
        return Cause(
            code="ReplicaSetRefused",
            state=State.STUCK,
            what=" ".join(condition.message.split()).rstrip("."),
            object=read.item.reference,
            field=f"status.conditions[{PROGRESSING}]",
            since=condition.last_transition_time or "",
            remedy="change the deployment as the message says, or the quota",
        )
    if read.deployment.spec.strategy.type == "Recreate":
        old = await _old_pods(view, read)
        if old:
            return symptom(_not_available(read), old)
    return Cause(
        code="NoReplicaSet",
        state=State.PROGRESSING,
        what="the controller creates the replica set of the current template",
        object=read.item.reference,
        field="spec.template",
        since=read.item.created_at,
    )


def _not_available(read: _Read) -> Cause:
    """Return the symptom of a rollout that is not complete, with its bounds."""
    deployment, rollout = read.deployment, read.rollout
    wanted = desired_replicas(deployment)
    new = rollout.new
    available = new.status.available_replicas if new is not None else 0
    what = f"{available} of {wanted} pods of the current template are available"
    field = "status.availableReplicas"
    if old := sum(desired_replicas(each) for each in active(rollout.old)):
        what += f", and {old} of older ones stay"
        if is_rolling_update(deployment):
            surge, missing = max_surge(deployment), max_unavailable(deployment)
            what += f" (at most {surge} more and {missing} fewer than {wanted} pods)"
            field = "spec.strategy.rollingUpdate"
    return Cause(
        code="RolloutWaits",
        state=State.PROGRESSING,
        what=what,
        object=read.item.reference,
        field=field,
        since=_since(read),
    )


def _since(read: _Read) -> str:
    """Return the time since which the rollout has made no progress."""
    condition = find_condition(read.deployment.status.conditions, PROGRESSING)
    if condition is not None and condition.last_update_time:
        if condition.reason != PROGRESS_DEADLINE_EXCEEDED:
            return condition.last_update_time
        if read.rollout.new is not None:
            return read.rollout.new.metadata.creation_timestamp or ""
    return read.item.created_at


async def _pods_of_new(view: View, read: _Read) -> tuple[Cause, ...]:
    """Return the causes for which the new replica set lacks available pods."""
    new = read.rollout.new
    assert new is not None  # noqa: S101 - the callers have looked
    item = read.items[new.metadata.uid]
    causes = await explain_replica_set(view, item)
    old = active(read.rollout.old)
    surge = max_surge(read.deployment)
    if old and surge and any(_is_full_quota(each) for each in causes):
        return tuple(_surge_blocked(item, each, surge) for each in causes)
    return causes


def _is_full_quota(cause: Cause) -> bool:
    return cause.code == "QuotaFull" or any(map(_is_full_quota, cause.because))


def _surge_blocked(item: Item, cause: Cause, surge: int) -> Cause:
    """Return a cause with the remark that the old pods use the quota."""
    if not _is_full_quota(cause):
        return cause
    blocked = Cause(
        code="SurgeBlocked",
        state=cause.state,
        what=f"the old pods use the quota that the new ones need (maxSurge {surge})",
        object=item.reference,
        field="spec.replicas",
        remedy="raise the quota, or let the rollout delete first: maxSurge 0 and "
        "maxUnavailable 1",
    )
    return symptom(blocked, [cause])


async def _old_pods(view: View, read: _Read) -> tuple[Cause, ...]:
    """Return causes for old pods that the rollout waits for."""
    found: list[Item] = []
    for each in read.rollout.old:
        item = read.items[each.metadata.uid]
        found += await pods_of(view, item, each.spec.selector)
    ending = await explain_ending_pods(view, found)
    if is_rolling_update(read.deployment):
        # They matter only if the new ones wait for their place.
        return ending if _waits_for_place(read) else ()
    pods = [each.typed(Pod) for each in found]
    return ending if old_pods_running(read.rollout, pods) else ()


def _waits_for_place(read: _Read) -> bool:
    new = read.rollout.new
    return new is not None and desired_replicas(new) < desired_replicas(read.deployment)


def _next_step(read: _Read) -> tuple[Cause, ...]:
    """Return the next step of the controller as a cause, if it has one."""
    rollout = read.rollout
    plan: Plan
    if is_scaling_event(rollout):
        plan = plan_scaling(rollout)
    elif is_rolling_update(read.deployment):
        plan = plan_rolling(rollout)
    else:
        plan = (*plan_scale_down(rollout), *plan_scale_up(rollout))
    steps = [
        each for each in plan if each.replicas != desired_replicas(each.replica_set)
    ]
    if not steps:
        return ()
    first = steps[0]
    before, after = desired_replicas(first.replica_set), first.replicas
    item = read.items[first.replica_set.metadata.uid]
    return (
        Cause(
            code="NextStep",
            state=State.PROGRESSING,
            what=f"the controller scales the replica set from {before} to {after} next",
            object=item.reference,
            field="spec.replicas",
        ),
    )


def _with_deadline(view: View, read: _Read, waiting: Cause) -> Cause:
    """Return the cause, as that of a missed deadline if the deadline has passed."""
    deployment = read.deployment
    current = find_condition(deployment.status.conditions, PROGRESSING)
    if not has_deadline(deployment) or deployment.spec.paused or current is None:
        return waiting
    if not has_timed_out(deployment, current, view.now):
        return waiting
    seconds = deployment.spec.progress_deadline_seconds
    passed = Cause(
        code="DeadlinePassed",
        state=State.STUCK,
        what=f"the rollout has made no progress for {seconds} s, its deadline",
        object=read.item.reference,
        field=f"status.conditions[{PROGRESSING}]",
        since=current.last_update_time or "",
    )
    return symptom(passed, [waiting])
