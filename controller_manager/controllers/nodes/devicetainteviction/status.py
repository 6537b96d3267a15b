"""The condition of a rule about its evictions (maybeUpdateRuleStatus)."""

from typing import Final

from msgspec import Struct

from controller_manager.api.core.scheduling import NO_EXECUTE
from controller_manager.api.dynamicresources.v1beta2 import DeviceTaintRule
from controller_manager.api.meta import Condition

IN_PROGRESS: Final = "EvictionInProgress"
"""The type of the only condition of a rule."""

NO_EFFECT: Final = "None"
"""The effect of a rule whose status shows the effects that it would have."""

_NOT_AGAIN: Final = (
    "if the effect was NoExecute. This information will not be updated again. "
    "Recreate the DeviceTaintRule to trigger an update."
)


class Counts(Struct, frozen=True):
    """The effects of a rule, or those that it would have with the effect NoExecute.

    `published` and `allocated` devices are selected. This process has `evicted` pods.
    """

    pods: int = 0
    namespaces: int = 0
    published: int = 0
    allocated: int = 0
    evicted: int = 0


def condition_of(rule: DeviceTaintRule, counts: Counts) -> Condition:
    """Return the condition of a rule, without the time of its transition."""
    status, reason, message = "False", "OtherEffect", ""
    match rule.spec.taint.effect:
        case "NoExecute" if counts.pods:
            status, reason = "True", "PodsPendingEviction"
            needs = "needs" if counts.pods == 1 else "need"
            message = (
                f"{_number(counts.pods, 'pod')} {needs} to be evicted in "
                f"{_namespaces(counts.namespaces)}."
            )
        case "NoExecute":
            reason = "Completed" if counts.evicted else "NotStarted"
        case "None":
            reason, message = "NoEffect", _simulation(counts)
        case _:
            message = "Eviction only happens for the NoExecute effect."
    if counts.evicted:
        evicted = f"{_number(counts.evicted, 'pod')} evicted since starting the "
        message = f"{message} {evicted}controller.".lstrip()
    return Condition(
        type=IN_PROGRESS,
        status=status,
        observed_generation=rule.metadata.generation,
        reason=reason,
        message=message,
    )


def _simulation(counts: Counts) -> str:
    return (
        f"{_number(counts.published, 'published device')} selected. "
        f"{_number(counts.allocated, 'allocated device')} selected. "
        f"{_number(counts.pods, 'pod')} would be evicted in "
        f"{_namespaces(counts.namespaces)} {_NOT_AGAIN}"
    )


def _number(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _namespaces(count: int) -> str:
    return "1 namespace" if count == 1 else f"{count} different namespaces"


def counts_pods(rule: DeviceTaintRule) -> bool:
    """Tell whether the condition has a number of pods."""
    return rule.spec.taint.effect in (NO_EXECUTE, NO_EFFECT)
