"""The times of evictions, and the taints that count, as tables."""

from datetime import UTC, datetime, timedelta

import pytest

from controller_manager.api.dynamicresources.v1 import (
    AllocatedDevice,
    Device,
    DeviceTaint,
    DeviceToleration,
    ResourceSlice,
)
from controller_manager.api.dynamicresources.v1beta2 import (
    DeviceTaintRule,
    DeviceTaintRuleMeta,
    DeviceTaintRuleSpec,
    DeviceTaintSelector,
)
from controller_manager.api.meta import Condition, PartialMetadata
from controller_manager.controllers.nodes.devicetainteviction.claims import (
    DeviceName,
    Origin,
    Reason,
    due,
    reasons_of,
    selects,
    taints_of,
)
from controller_manager.controllers.nodes.devicetainteviction.status import (
    Counts,
    condition_of,
)

ADDED = "2026-01-01T00:00:00Z"
START = datetime(2026, 1, 1, tzinfo=UTC)
NOW = START + timedelta(hours=1)
NAME = DeviceName("d", "p", "x")
TAINT = DeviceTaint(key="k", value="v", effect="NoExecute", time_added=ADDED)
ORIGIN = Origin("s", "u", is_rule=False, device="x")


def tolerates(seconds: int | None = None, **fields: str) -> DeviceToleration:
    wanted = {"key": "k", "value": "v", "effect": "NoExecute"} | fields
    return DeviceToleration(**wanted, toleration_seconds=seconds)


@pytest.mark.parametrize(
    ("tolerations", "after"),
    [
        ((), 0),
        ((tolerates(),), None),
        ((tolerates(30),), 30),
        ((tolerates(30), tolerates(20)), 20),
        ((tolerates(30), tolerates()), None),
        ((tolerates(-5),), 0),
        ((tolerates(2**63 - 1),), 10**9),
        ((tolerates(value="w"),), 0),
        ((tolerates(value="w", operator="Exists"),), None),
        ((tolerates(operator="Equal"),), None),
        ((tolerates(operator="Gt"),), 0),
        ((tolerates(key="", operator="Exists"),), None),
        ((tolerates(key="other"),), 0),
        ((tolerates(effect="NoSchedule"),), 0),
        ((tolerates(effect=""),), 0),
    ],
)
def test_a_pod_is_evicted_when_its_toleration_is_over(
    tolerations: tuple[DeviceToleration, ...], after: int | None
) -> None:
    """The shortest toleration counts; `None` is for ever."""
    device = AllocatedDevice("d", "p", "x", tolerations)
    expected = (
        []
        if after is None
        else [Reason(ORIGIN, TAINT, START + timedelta(seconds=after))]
    )
    assert list(reasons_of(device, [(ORIGIN, TAINT)], NOW)) == expected


def test_a_taint_without_a_time_counts_from_now() -> None:
    taint = DeviceTaint(key="k", effect="NoExecute")
    device = AllocatedDevice("d", "p", "x")
    reasons = tuple(reasons_of(device, [(ORIGIN, taint)], NOW))
    assert due(reasons) == NOW
    assert due(()) is None


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (None, False),
        (DeviceTaintSelector(), True),
        (DeviceTaintSelector(driver="d"), True),
        (DeviceTaintSelector(driver="d", pool="p", device="x"), True),
        (DeviceTaintSelector(driver="e"), False),
        (DeviceTaintSelector(driver="d", pool="q"), False),
        (DeviceTaintSelector(device="y"), False),
    ],
)
def test_a_selector_selects_devices_with_all_its_names(
    selector: DeviceTaintSelector | None, *, expected: bool
) -> None:
    assert selects(selector, NAME) == expected


def rule(name: str, effect: str, **selector: str) -> DeviceTaintRule:
    return DeviceTaintRule(
        metadata=DeviceTaintRuleMeta(name=name, uid=f"uid-{name}"),
        spec=DeviceTaintRuleSpec(
            DeviceTaintSelector(**selector), DeviceTaint(key="r", effect=effect)
        ),
    )


def test_taints_come_from_drivers_and_from_rules() -> None:
    device = Device("x", (DeviceTaint(key="n", effect="NoSchedule"), TAINT))
    published = (ResourceSlice(metadata=PartialMetadata(name="s", uid="u")), device)
    rules = [rule("a", "NoExecute", device="x"), rule("b", "None"), rule("c", "")]
    of_rule = (Origin("a", "uid-a", is_rule=True), rules[0].spec.taint)
    assert list(taints_of(NAME, published, rules)) == [(ORIGIN, TAINT), of_rule]
    assert list(taints_of(NAME, None, rules)) == [of_rule]


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
