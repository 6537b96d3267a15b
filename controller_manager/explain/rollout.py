"""Explains deployments: the rollout, the new replica set, and its pods.

A rollout may be paused, and its old pods may fail meanwhile.
"""

from typing import Final

from msgspec import Struct

from controller_manager.api.apps.v1 import (
    REPLICASETS,
    Deployment,
    ReplicaSet,
    desired_replicas,
)
from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.meta import find_condition
from controller_manager.api.selectors import format_selector
from controller_manager.controllers.apps.deployment import scaling
from controller_manager.controllers.apps.deployment.rollout import (
    Rollout,
    find_rollout,
    refusal_of,
)
from controller_manager.controllers.apps.deployment.status import (
    PROGRESS_DEADLINE_EXCEEDED,
    PROGRESSING,
    REPLICA_SET_CREATE_ERROR,
    REPLICA_SET_MUTATED,
    has_deadline,
    has_timed_out,
    is_complete,
)

from . import replicas
from .cause import Cause, Item, State, symptom, worst_of, writers_of
from .creation import names_quota, refused
from .mutated import explain_mutated_sets
from .own_causes import explain_inaction, scaled_to_zero, spec_cause
from .view import Event, View, has_all, owned, pods_of


class Read(Struct, frozen=True):
    """A deployment, its replica sets by uid, and its rollout."""

    item: Item
    deployment: Deployment
    items: dict[str, Item]
    rollout: Rollout


def not_available(read: Read) -> Cause:
    """Return the symptom of a rollout that is not complete, with its bounds."""
    deployment, rollout = read.deployment, read.rollout
    wanted = desired_replicas(deployment)
    new = rollout.new
    available = new.status.available_replicas if new is not None else 0
    what = f"{available} of {wanted} pods of the current template are available"
    field = "status.availableReplicas"
    if old := sum(desired_replicas(each) for each in scaling.active(rollout.old)):
        what += f", and {old} of older ones stay"
        if scaling.is_rolling_update(deployment):
            surge, missing = (
                scaling.max_surge(deployment),
                scaling.max_unavailable(deployment),
            )
            what += f" (at most {surge} more and {missing} fewer than {wanted} pods)"
            field = "spec.strategy.rollingUpdate"
    return read.item.cause(
        "RolloutWaits", what, field, progress_since(read), state=State.PROGRESSING
    )


def progress_since(read: Read) -> str:
    """Return the time since which the rollout has made no progress."""
    condition = find_condition(read.deployment.status.conditions, PROGRESSING)
    if condition is not None and condition.last_update_time:
        if condition.reason != PROGRESS_DEADLINE_EXCEEDED:
            return condition.last_update_time
        if read.rollout.new is not None:
            return read.rollout.new.metadata.creation_timestamp or ""
    return read.item.created_at


async def explain_pause(view: View, read: Read) -> Cause:
    """Return the cause for a paused rollout that is not complete."""
    writers = writers_of(read.item, "spec", "paused")
    by = f" by {writers[0].manager}" if writers else ""
    template = "the new template has no pods yet" if _is_outdated(read) else ""
    missing = "pods of the current template are not available"
    cause = read.item.cause(
        "Paused",
        f"the rollout was paused{by}: {template or missing}",
        "spec.paused",
        writers[0].at if writers else read.item.created_at,
        remedy=f"resume it: kubectl rollout resume {_name(read.item)}",
    )
    if template or read.rollout.new is None:
        return cause
    causes = await pods_of_new(view, read)
    # A paused deployment still replaces its pods: those that fail are a cause of
    # their own, and the pause is none.
    return symptom(not_available(read), causes) if causes else cause


async def old_trouble(view: View, read: Read) -> tuple[Cause, ...]:
    """Return the causes for which old pods fail while a new template is paused.

    They serve until the rollout goes on, and nothing else would tell of them.
    """
    if not _is_outdated(read):
        return ()
    found: list[Cause] = []
    for each in scaling.active(read.rollout.old):
        found += await replicas.explain_replica_set(view, read.items[each.metadata.uid])
    return tuple(found)


def _is_outdated(read: Read) -> bool:
    new = read.rollout.new
    return new is None or (
        desired_replicas(new) < desired_replicas(read.deployment)
        and bool(scaling.active(read.rollout.old))
    )


def _name(item: Item) -> str:
    return f"-n {item.namespace} deployment/{item.name}"


_REFUSALS: Final = {
    REPLICA_SET_CREATE_ERROR: (
        "ReplicaSetRefused",
        "change the deployment as the message says, or the quota",
    ),
    REPLICA_SET_MUTATED: (
        "ReplicaSetMutated",
        "let the mutating webhook or policy leave the field of replica sets alone",
    ),
}
"""The code and the remedy by the reason of the condition."""


async def explain_deployment(view: View, item: Item) -> tuple[Cause, ...]:
    """Return the causes for which a deployment is not as its spec wants it."""
    deployment = item.typed(Deployment)
    if refusal := refused_spec(item, deployment):
        return (refusal,)
    if inaction := await explain_inaction(view, item):
        return (inaction,)
    sets = await owned(view, item, REPLICASETS, deployment.spec.selector)
    rollout = find_rollout(deployment, [each.typed(ReplicaSet) for each in sets])
    read = Read(item, deployment, {each.uid: each for each in sets}, rollout)
    if not has_all(view, item, REPLICASETS, deployment.spec.selector):
        mutated = await explain_mutated_sets(view, item, sets)
        return (mutated,) if mutated is not None else _without_sets(view, read)
    if deployment.spec.paused and not _is_done(read):
        return (await explain_pause(view, read), *await old_trouble(view, read))
    if is_complete(deployment, deployment.status):
        if evicted := await replicas.explain_evictions(view, item):
            return evicted
        ending = await _stuck_endings(view, read)
        if desired_replicas(deployment) == 0:
            return (*ending, scaled_to_zero(item))
        return ending
    return (_with_deadline(view, read, await _waiting(view, read)),)


async def _stuck_endings(view: View, read: Read) -> tuple[Cause, ...]:
    """Return the causes for which pods of a complete rollout never end."""
    selector = read.deployment.spec.selector
    labels = format_selector(selector)
    pods = [
        each
        for each in await view.list(PODS, read.item.namespace, labels=labels)
        if each.deleted_at and (each.controller or {}).get("uid") in read.items
    ]
    return await replicas.stuck_endings(view, pods)


def _without_sets(view: View, read: Read) -> tuple[Cause, ...]:
    """Return the cause that the status shows, if not all replica sets were read."""
    status, wanted = read.deployment.status, desired_replicas(read.deployment)
    if is_complete(read.deployment, status):
        return ()
    cause = read.item.cause(
        "RolloutWaits",
        f"{status.available_replicas} of {wanted} pods are available, and "
        f"{status.updated_replicas} have the current template",
        "status.availableReplicas",
        progress_since(read),
        state=State.PROGRESSING,
    )
    return (_with_deadline(view, read, cause),)


def refused_spec(item: Item, deployment: Deployment) -> Cause | None:
    """Return the cause if the controller refuses the spec of a deployment."""
    if (refusal := refusal_of(deployment)) is None:
        return None
    return spec_cause(
        item,
        "SpecRefused",
        refusal.message.rstrip("."),
        "spec.selector",
        "correct the selector or the template of the deployment",
    )


def _is_done(read: Read) -> bool:
    """Tell whether all pods have the current template, and are available."""
    done = is_complete(read.deployment, read.deployment.status)
    return done and read.rollout.new is not None


async def _waiting(view: View, read: Read) -> Cause:
    """Return the cause for which a rollout is not complete."""
    if read.rollout.new is None:
        return await _no_new_replica_set(view, read)
    causes = [*await pods_of_new(view, read), *await _old_pods(view, read)]
    step = _next_step(read)
    if causes and not (step and worst_of(causes) is not State.STUCK):
        return symptom(not_available(read), causes)
    return symptom(not_available(read), [*causes, *step])


async def _no_new_replica_set(view: View, read: Read) -> Cause:
    """Return the cause for a deployment whose new replica set does not exist."""
    condition = find_condition(read.deployment.status.conditions, PROGRESSING)
    if condition is not None and condition.reason in _REFUSALS:
        code, remedy = _REFUSALS[condition.reason]
        message = " ".join(condition.message.split()).rstrip(".")
        field = f"status.conditions[{PROGRESSING}]"
        since = condition.last_transition_time or ""
        if names_quota(message):
            refusal = Event(condition.reason, message, since, field)
            return await refused(view, read.item, refusal, 1)
        return read.item.cause(code, message, field, since, remedy=remedy)
    mutated = await explain_mutated_sets(view, read.item, list(read.items.values()))
    if mutated is not None:
        return mutated
    if read.deployment.spec.strategy.type == "Recreate":
        old = await _old_pods(view, read)
        if old:
            return symptom(not_available(read), old)
    return read.item.cause(
        "NoReplicaSet",
        "the controller creates the replica set of the current template",
        "spec.template",
        read.item.created_at,
        state=State.PROGRESSING,
    )


async def _old_pods(view: View, read: Read) -> tuple[Cause, ...]:
    """Return causes for old pods that the rollout waits for."""
    found: list[Item] = []
    for each in read.rollout.old:
        item = read.items[each.metadata.uid]
        found += await pods_of(view, item, each.spec.selector)
    ending = await replicas.explain_ending_pods(view, found)
    if scaling.is_rolling_update(read.deployment):
        # They matter only if the new ones wait for their place.
        return ending if _waits_for_place(read) else ()
    pods = [each.typed(Pod) for each in found]
    return ending if scaling.old_pods_running(read.rollout, pods) else ()


def _waits_for_place(read: Read) -> bool:
    new = read.rollout.new
    return new is not None and desired_replicas(new) < desired_replicas(read.deployment)


def _next_step(read: Read) -> tuple[Cause, ...]:
    """Return the next step of the controller as a cause, if it has one."""
    rollout = read.rollout
    plan: scaling.Plan
    if scaling.is_scaling_event(rollout):
        plan = scaling.plan_scaling(rollout)
    elif scaling.is_rolling_update(read.deployment):
        plan = scaling.plan_rolling(rollout)
    else:
        plan = (*scaling.plan_scale_down(rollout), *scaling.plan_scale_up(rollout))
    steps = [
        each for each in plan if each.replicas != desired_replicas(each.replica_set)
    ]
    if not steps:
        return ()
    first = steps[0]
    before, after = desired_replicas(first.replica_set), first.replicas
    item = read.items[first.replica_set.metadata.uid]
    return (
        item.cause(
            "NextStep",
            f"the controller scales the replica set from {before} to {after} next",
            "spec.replicas",
            state=State.PROGRESSING,
        ),
    )


def _with_deadline(view: View, read: Read, waiting: Cause) -> Cause:
    """Return the cause, as that of a missed deadline if the deadline has passed."""
    deployment = read.deployment
    current = find_condition(deployment.status.conditions, PROGRESSING)
    if not has_deadline(deployment) or deployment.spec.paused or current is None:
        return waiting
    if not has_timed_out(deployment, current, view.now):
        return waiting
    seconds = deployment.spec.progress_deadline_seconds
    passed = read.item.cause(
        "DeadlinePassed",
        f"the rollout has made no progress for {seconds} s, its deadline",
        f"status.conditions[{PROGRESSING}]",
        current.last_update_time or "",
    )
    return symptom(passed, [waiting])


async def pods_of_new(view: View, read: Read) -> tuple[Cause, ...]:
    """Return the causes for which the new replica set lacks available pods."""
    new = read.rollout.new
    assert new is not None  # noqa: S101 - the callers have looked
    item = read.items[new.metadata.uid]
    causes = await replicas.explain_replica_set(view, item)
    old = scaling.active(read.rollout.old)
    surge = scaling.max_surge(read.deployment)
    if old and surge and any(_is_full_quota(each) for each in causes):
        return tuple(_surge_blocked(item, each, surge) for each in causes)
    return causes


def _is_full_quota(cause: Cause) -> bool:
    return cause.code == "QuotaFull" or any(map(_is_full_quota, cause.because))


def _surge_blocked(item: Item, cause: Cause, surge: int) -> Cause:
    """Return a cause with the remark that the old pods use the quota."""
    if not _is_full_quota(cause):
        return cause
    blocked = item.cause(
        "SurgeBlocked",
        f"the old pods use the quota that the new ones need (maxSurge {surge})",
        "spec.replicas",
        remedy="raise the quota, or let the rollout delete first: maxSurge 0 and "
        "maxUnavailable 1",
        state=cause.state,
    )
    return symptom(blocked, [cause])
