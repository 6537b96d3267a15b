"""Matches failed pods against a job's podFailurePolicy (pod_failure_policy.go)."""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from controller_manager.api.batch.v1 import (
    PodFailurePolicy,
    PodFailurePolicyOnExitCodesRequirement,
    PodFailurePolicyOnPodConditionsPattern,
    PodFailurePolicyRule,
)
from controller_manager.api.core.v1 import Pod

FAIL_JOB: Final = "FailJob"
FAIL_INDEX: Final = "FailIndex"
IGNORE: Final = "Ignore"
COUNT: Final = "Count"

_ACTIONS: Final = frozenset((FAIL_JOB, FAIL_INDEX, IGNORE, COUNT))


class MatchedAction(Struct, frozen=True):
    """The action of the first rule that matches a failed pod."""

    action: str
    """FailJob, FailIndex, Ignore or Count."""

    message: str = ""
    """The reason for which the job fails; empty for other actions than FailJob."""


def match(policy: PodFailurePolicy | None, pod: Pod) -> MatchedAction | None:
    """Return the action of a policy for a failed pod; `None` if no rule matches.

    Rules are tried in order. A rule with an action that this version does not know is
    skipped. A pod that no rule matches is counted.
    """
    for number, rule in enumerate(policy.rules or () if policy is not None else ()):
        if rule.action not in _ACTIONS:
            continue
        found = _found(rule, pod)
        if found is None:
            continue
        if rule.action != FAIL_JOB:
            return MatchedAction(rule.action)
        return MatchedAction(
            FAIL_JOB, f"{found} matching {rule.action} rule at index {number}"
        )
    return None


def counts(policy: PodFailurePolicy | None, pod: Pod) -> bool:
    """Tell whether a failed pod counts towards backoffLimit: not if it is ignored."""
    matched = match(policy, pod)
    return matched is None or matched.action != IGNORE


def fails_job(policy: PodFailurePolicy | None, pod: Pod) -> bool:
    """Tell whether the job fails because of a failed pod."""
    matched = match(policy, pod)
    return matched is not None and matched.action == FAIL_JOB


def _found(rule: PodFailurePolicyRule, pod: Pod) -> str | None:
    """Return the match of a rule, for the message; `None` if it does not match."""
    name = f"{pod.metadata.namespace}/{pod.metadata.name}"
    if rule.on_exit_codes is not None:
        ended = _exited(rule.on_exit_codes, pod)
        if ended is None:
            return None
        container, code = ended
        return f"Container {container} for pod {name} failed with exit code {code}"
    condition = _condition(rule.on_pod_conditions or (), pod)
    return None if condition is None else f"Pod {name} has condition {condition}"


def _exited(
    requirement: PodFailurePolicyOnExitCodesRequirement, pod: Pod
) -> tuple[str, int] | None:
    """Return the name and exit code of the first container that matches.

    Containers come before init containers. Exit code 0 never matches, not even NotIn.
    """
    for status in (
        *(pod.status.container_statuses or ()),
        *(pod.status.init_container_statuses or ()),
    ):
        ended = status.state.terminated
        if ended is None or ended.exit_code == 0:
            continue
        if requirement.container_name not in (None, status.name):
            continue
        listed = ended.exit_code in (requirement.values or ())
        if requirement.operator == ("In" if listed else "NotIn"):
            return status.name, ended.exit_code
    return None


def _condition(
    patterns: Iterable[PodFailurePolicyOnPodConditionsPattern], pod: Pod
) -> str | None:
    """Return the type of the pod's first condition that matches a pattern."""
    wanted = {(pattern.type, pattern.status) for pattern in patterns}
    for condition in pod.status.conditions or ():
        if (condition.type, condition.status) in wanted:
            return condition.type
    return None
