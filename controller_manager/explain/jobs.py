"""Explains jobs: running, backing off, failed, suspended."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from msgspec.structs import replace

from controller_manager.api.batch.v1 import COMPLETE, Job, JobCondition, end_condition
from controller_manager.api.core.v1 import Pod
from controller_manager.api.meta import is_deleting
from controller_manager.api.pods import is_active, is_terminating
from controller_manager.api.scalars import format_time
from controller_manager.api.selectors import LabelSelector
from controller_manager.controllers.batch.job import failures
from controller_manager.controllers.batch.job.pods import (
    NO_CHANGE,
    PodPlan,
    external_manager,
    is_suspended,
    plan_pods,
)
from controller_manager.controllers.batch.job.status import evaluate

from .cause import Cause, Item, State, merged, symptom
from .creation import explain_refusal
from .own_causes import explain_inaction, spec_cause, suspended
from .pods import explain_failed, explain_pod
from .replicas import explain_ending_pods, explain_evictions
from .view import View, has_all_pods, pods_of

_EXAMPLES: Final = 20


async def explain_job(view: View, item: Item) -> tuple[Cause, ...]:
    """Return the causes for which a job is not complete."""
    job = item.typed(Job)
    end = end_condition(job)
    if end is not None and end.type == COMPLETE:
        return ()
    if other := external_manager(job):
        return (_external(item, other),)
    if end is not None:
        return (symptom(_failed(item, end), await _failed_pods(view, item, job)),)
    if inaction := await explain_inaction(view, item):
        return (inaction,)
    if is_suspended(job):
        return (suspended(item, "so it starts no pods"),)
    pods = await _pods(view, item, job)
    plan = None
    if has_all_pods(view, item, _selector(job)):
        plan = _plan(job, [each.typed(Pod) for each in pods], view.now)
    return (await _running(view, item, job, pods, plan),)


def _plan(job: Job, pods: Sequence[Pod], now: datetime) -> PodPlan:
    """Return what the job controller does next about the number of pods."""
    tally, finished = evaluate(job, pods, now)
    goes_on = finished is None and not is_deleting(job)
    return plan_pods(tally, now) if goes_on else NO_CHANGE


async def _pods(view: View, item: Item, job: Job) -> tuple[Item, ...]:
    return await pods_of(view, item, _selector(job))


def _selector(job: Job) -> LabelSelector:
    return job.spec.selector or LabelSelector()


def _external(item: Item, manager: str) -> Cause:
    return spec_cause(
        item,
        "ManagedByOther",
        f"the job is managed by {manager}, not by the job controller",
        "spec.managedBy",
        f"see that {manager} runs, and look at its log",
        State.PROGRESSING,
    )


_REMEDIES: Final = {
    "BackoffLimitExceeded": "correct the program, or raise backoffLimit, and create "
    "the job again",
    "DeadlineExceeded": "raise activeDeadlineSeconds, and create the job again",
    "PodFailurePolicy": "correct the program, or the podFailurePolicy, and create the "
    "job again",
}


def _failed(item: Item, end: JobCondition) -> Cause:
    """Return the cause for a job that has failed: its reason."""
    message = " ".join(end.message.split()).rstrip(".")
    return item.cause(
        end.reason or "JobFailed",
        f"the job has failed: {message[:1].lower()}{message[1:]}",
        "status.conditions[Failed]",
        end.last_transition_time or "",
        remedy=_REMEDIES.get(end.reason, "correct the program, and create it again"),
    )


async def _failed_pods(view: View, item: Item, job: Job) -> Sequence[Cause]:
    """Return the causes for which pods of a job have failed."""
    found = []
    for each in await _pods(view, item, job):
        if each.status.get("phase") != "Failed":
            continue
        cause = replace(explain_failed(each), remedy="")
        matched = failures.match(job.spec.pod_failure_policy, each.typed(Pod))
        if matched is not None:
            what = f"{cause.what}; the action of podFailurePolicy is {matched.action}"
            fails = matched.action == failures.FAIL_JOB
            cause = (
                replace(cause, what=what, code="PolicyFailsJob")
                if fails
                else (replace(cause, what=what))
            )
        found.append(cause)
    return merged(found[:_EXAMPLES])


async def _running(
    view: View,
    item: Item,
    job: Job,
    pods: Sequence[Item],
    plan: PodPlan | None,
) -> Cause:
    """Return the cause for a job that goes on.

    There is no plan if not all pods were read.
    """
    found: list[Cause] = [*await explain_evictions(view, item)]
    active = [each for each in pods if is_active(each.typed(Pod))]
    count_active = job.status.active if plan is None else len(active)
    if plan is not None and plan.wait:
        found.append(await _backing_off(view, item, job, plan.wait))
    if plan is not None and plan.create:
        refusal = await explain_refusal(view, item, plan.create)
        found += [refusal] if refusal else []
    for each in active[:_EXAMPLES]:
        found += await explain_pod(view, each)
    if not active:
        ending = [each for each in pods if is_terminating(each.typed(Pod))]
        found += await explain_ending_pods(view, ending)
    wanted = job.spec.completions
    done = (
        f"{job.status.succeeded} of {wanted}" if wanted else str(job.status.succeeded)
    )
    cause = item.cause(
        "JobRuns",
        f"{done} pods have succeeded, {job.status.failed} have failed, "
        f"{count_active} are active",
        "status.succeeded",
        job.status.start_time or item.created_at,
        state=State.PROGRESSING,
    )
    return symptom(cause, merged(found))


async def _backing_off(view: View, item: Item, job: Job, seconds: float) -> Cause:
    """Return the cause for a job that waits before it creates the next pod."""
    until = format_time(view.now + timedelta(seconds=seconds))
    cause = item.cause(
        "BackingOff",
        f"the next pod is created at {until}, after {job.status.failed} failures "
        f"of {failures.backoff_limit(job)} that are allowed",
        "status.failed",
        state=State.PROGRESSING,
    )
    return symptom(
        cause,
        [
            replace(each, state=State.PROGRESSING)
            for each in await _failed_pods(view, item, job)
        ],
    )
