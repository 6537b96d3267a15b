"""Explains disruption budgets that block a drain."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.json_objects import JSON
from controller_manager.api.policy.v1 import BUDGETS, PodDisruptionBudget
from controller_manager.api.scalars import IntOrStringError
from controller_manager.api.selectors import (
    SelectorError,
    compile_selector,
    format_selector,
)
from controller_manager.controllers.apps.disruption.health import (
    DISRUPTION_ALLOWED,
    SYNC_FAILED,
    Health,
    assess,
    is_limited,
)

from .cause import Cause, Item, State, symptom, text_at
from .own_causes import condition_cause, explain_inaction, message_of, spec_cause
from .replicas import explain_pods
from .view import View

_ALWAYS_ALLOW: Final = "AlwaysAllow"
_SHOWN: Final = 5


async def explain_budget(view: View, item: Item) -> tuple[Cause, ...]:
    """Return the cause for which a budget allows no eviction, so that drains wait."""
    if inaction := await explain_inaction(view, item):
        return (inaction,)
    budget = item.typed(PodDisruptionBudget)
    condition = item.condition(DISRUPTION_ALLOWED) or {}
    if condition.get("reason") == SYNC_FAILED:
        return (_uncounted(item, condition),)
    labels = format_selector(budget.spec.selector)
    try:
        selector = compile_selector(budget.spec.selector)
        found = await view.list(PODS, item.namespace, labels=labels)
        pods = [each for each in found if selector.matches(each.labels)]
        expected = budget.status.expected_pods
        typed = [each.typed(Pod) for each in pods]
        health = assess(budget, typed, expected, view.now)
        is_whole = view.is_whole(PODS, item.namespace, labels=labels)
        health = health if is_whole else _counted(budget)
    except (IntOrStringError, SelectorError) as error:
        return (_unusable(item, str(error)),)
    overlap = await _overlap(view, item, pods)
    if health.allowed:
        return overlap
    if not pods and is_whole:
        return (_matches_nothing(item),)
    if not is_limited(budget):
        return (_no_limit(item),)
    unhealthy = [
        each for each in pods if (each.condition("Ready") or {}).get("status") != "True"
    ]
    cause = _blocked(item, budget, health, [each.name for each in pods])
    if unhealthy and budget.spec.unhealthy_pod_eviction_policy == _ALWAYS_ALLOW:
        what = cause.what.replace("no pod may", "no pod that is ready may", 1)
        cause = replace(cause, what=what)
    return (symptom(cause, await explain_pods(view, unhealthy, 0)), *overlap)


def protects(item: Item, pod: Item) -> bool:
    """Tell whether a budget may block the eviction of a pod.

    One that is not ready may be evicted at any time if the budget says so.
    """
    policy = text_at(item.spec, "unhealthyPodEvictionPolicy")
    is_ready = (pod.condition("Ready") or {}).get("status") == "True"
    return _matcher(item)(pod.labels) and (is_ready or policy != _ALWAYS_ALLOW)


def _matcher(item: Item) -> Callable[[Mapping[str, str]], bool]:
    """Return the test of labels by the selector of a budget."""
    selector = item.typed(PodDisruptionBudget).spec.selector
    try:
        return compile_selector(selector).matches
    except SelectorError:
        return lambda _: False


async def _overlap(view: View, item: Item, pods: Sequence[Item]) -> tuple[Cause, ...]:
    """Return the cause if pods of a budget have another one, too.

    The API server evicts no pod with two budgets, even if both allow it.
    """
    running = [
        each
        for each in pods
        if text_at(each.status, "phase") == "Running" and not each.deleted_at
    ]
    budgets = await view.list(BUDGETS, item.namespace) if running else ()
    others = [each for each in budgets if each.name != item.name]
    shared: list[tuple[str, str]] = []
    for budget in others:
        matches = _matcher(budget)
        shared += [(budget.name, pod.name) for pod in running if matches(pod.labels)]
    if not shared:
        return ()
    names = ", ".join(sorted({name for name, _ in shared}))
    cause = spec_cause(
        item,
        "BudgetsOverlap",
        f"the pod {shared[0][1]} has other budgets, too ({names}), so the API server "
        "does not evict it",
        "spec.selector",
        "let each pod match only one budget",
    )
    return (cause,)


def _counted(budget: PodDisruptionBudget) -> Health:
    """Return the counts of a budget's status, if not all its pods were read."""
    status = budget.status
    return Health(
        status.expected_pods,
        status.desired_healthy,
        status.current_healthy,
        {name: since or "" for name, since in (status.disrupted_pods or {}).items()},
    )


def _blocked(
    item: Item, budget: PodDisruptionBudget, health: Health, names: list[str]
) -> Cause:
    """Return the cause for a budget that allows no eviction at present."""
    spec = budget.spec
    limit, value = "minAvailable", spec.min_available
    if spec.max_unavailable is not None:
        limit, value = "maxUnavailable", spec.max_unavailable
    never = health.current >= health.expected and not health.disrupted
    shown = ", ".join(sorted(names)[:_SHOWN]) or "pods that were not read"
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return item.cause(
        "BudgetNeverAllows" if never else "BudgetBlocksDrain",
        f"no pod may be evicted: {health.current} of {health.expected} pods are "
        f"healthy, and {health.desired} must be ({limit}: {value}); it covers "
        f"{shown}{more}",
        f"spec.{limit}",
        text_at(item.condition(DISRUPTION_ALLOWED) or {}, "lastTransitionTime"),
        remedy="add a replica, or let the budget allow a disruption" if never else "",
        state=State.STUCK if never else State.PROGRESSING,
    )


def _uncounted(item: Item, condition: JSON) -> Cause:
    return condition_cause(
        item,
        condition,
        "BudgetNotCounted",
        "no pod may be evicted, because the expected pods cannot be counted: "
        + message_of(condition),
        "give a number as minAvailable, or pods that a workload controls",
    )


def _unusable(item: Item, message: str) -> Cause:
    what = f"no pod may be evicted: {message}"
    return spec_cause(item, "SpecRefused", what, "spec", "correct the budget")


def _matches_nothing(item: Item) -> Cause:
    return spec_cause(
        item,
        "NothingMatches",
        "the budget covers no pod, so it blocks no drain",
        "spec.selector",
        "correct the selector if it should cover pods",
        State.HEALTHY,
    )


def _no_limit(item: Item) -> Cause:
    return spec_cause(
        item,
        "BudgetNeverAllows",
        "no pod may be evicted: the budget has neither minAvailable nor maxUnavailable",
        "spec",
        "set maxUnavailable, for example to 1",
    )
