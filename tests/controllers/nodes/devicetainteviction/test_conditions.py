"""The texts of the condition of a rule, as upstream words them."""

import pytest

from controller_manager.api.dynamicresources.v1 import DeviceTaint
from controller_manager.api.dynamicresources.v1beta2 import (
    DeviceTaintRule,
    DeviceTaintRuleMeta,
    DeviceTaintRuleSpec,
)
from controller_manager.api.meta import Condition
from controller_manager.controllers.nodes.devicetainteviction.status import (
    Counts,
    condition_of,
)

NOT_AGAIN = (
    "if the effect was NoExecute. This information will not be updated again. "
    "Recreate the DeviceTaintRule to trigger an update."
)
SINCE = "evicted since starting the controller."


@pytest.mark.parametrize(
    ("effect", "counts", "status", "reason", "message"),
    [
        ("NoExecute", Counts(), "False", "NotStarted", ""),
        ("NoExecute", Counts(evicted=1), "False", "Completed", f"1 pod {SINCE}"),
        (
            "NoExecute",
            Counts(pods=1, namespaces=1),
            "True",
            "PodsPendingEviction",
            "1 pod needs to be evicted in 1 namespace.",
        ),
        (
            "NoExecute",
            Counts(pods=5, namespaces=2, evicted=3),
            "True",
            "PodsPendingEviction",
            f"5 pods need to be evicted in 2 different namespaces. 3 pods {SINCE}",
        ),
        (
            "None",
            Counts(),
            "False",
            "NoEffect",
            (
                "0 published devices selected. 0 allocated devices selected. "
                f"0 pods would be evicted in 0 different namespaces {NOT_AGAIN}"
            ),
        ),
        (
            "None",
            Counts(pods=1, namespaces=1, published=1, allocated=1, evicted=2),
            "False",
            "NoEffect",
            (
                "1 published device selected. 1 allocated device selected. "
                f"1 pod would be evicted in 1 namespace {NOT_AGAIN} 2 pods {SINCE}"
            ),
        ),
        (
            "NoSchedule",
            Counts(pods=1),
            "False",
            "OtherEffect",
            "Eviction only happens for the NoExecute effect.",
        ),
    ],
)
def test_the_condition_has_the_numbers_of_a_rule(
    effect: str, counts: Counts, status: str, reason: str, message: str
) -> None:
    """In the singular and in the plural."""
    rule = DeviceTaintRule(
        metadata=DeviceTaintRuleMeta(name="r", generation=7),
        spec=DeviceTaintRuleSpec(taint=DeviceTaint(effect=effect)),
    )
    assert condition_of(rule, counts) == Condition(
        type="EvictionInProgress",
        status=status,
        observed_generation=7,
        reason=reason,
        message=message,
    )
