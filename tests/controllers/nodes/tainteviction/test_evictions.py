"""Whether and when pods are evicted, as tables."""

import pytest
from prometheus_client import CollectorRegistry

from controller_manager.api.core.scheduling import Taint, Toleration
from controller_manager.api.core.v1 import Node, NodeCondition, NodeSpec, NodeStatus
from controller_manager.controllers.nodes.tainteviction.controller import (
    TaintEvictionMetrics,
)
from controller_manager.controllers.nodes.tainteviction.evictions import (
    Eviction,
    is_back,
    no_execute,
    plan,
    tolerated_seconds,
    used_tolerations,
)

A = Taint(key="a", value="1", effect="NoExecute")
B = Taint(key="b", effect="NoExecute")
EVERYTHING = Toleration(operator="Exists")


def tolerates_a(seconds: int | None = None, value: str = "1") -> Toleration:
    return Toleration(
        key="a", value=value, effect="NoExecute", toleration_seconds=seconds
    )


def tolerates_b(seconds: int | None = None) -> Toleration:
    return Toleration(key="b", operator="Exists", toleration_seconds=seconds)


def test_only_taints_with_the_effect_no_execute_evict() -> None:
    other = Taint(key="c", effect="NoSchedule")
    assert no_execute((other, A, B)) == (A, B)
    assert no_execute(None) == ()


@pytest.mark.parametrize(
    ("taints", "tolerations", "expected"),
    [
        ((), (), []),
        ((A,), (), None),
        ((A,), None, None),
        ((A,), (tolerates_a(value="2"),), None),
        ((A,), (Toleration(key="a", value="1", effect="NoSchedule"),), None),
        ((A,), (tolerates_a(4),), [tolerates_a(4)]),
        ((A,), (EVERYTHING,), [EVERYTHING]),
        ((A, B), (tolerates_a(),), None),
        ((A, B), (tolerates_b(2), tolerates_a(3)), [tolerates_a(3), tolerates_b(2)]),
        # The first toleration of a taint counts, as upstream.
        ((A,), (tolerates_a(9), tolerates_a(1)), [tolerates_a(9)]),
    ],
)
def test_the_first_toleration_of_each_taint_counts(
    taints: tuple[Taint, ...],
    tolerations: tuple[Toleration, ...] | None,
    expected: list[Toleration] | None,
) -> None:
    assert used_tolerations(taints, tolerations, compares_numbers=False) == expected


@pytest.mark.parametrize(("is_on", "expected"), [(True, 1), (False, None)])
def test_numbers_are_compared_by_gate(*, is_on: bool, expected: int | None) -> None:
    greater = Toleration(key="a", operator="Gt", value="0", effect="NoExecute")
    used = used_tolerations((A,), (greater,), compares_numbers=is_on)
    assert (None if used is None else len(used)) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        ((), None),
        ((None,), None),
        ((300,), 300),
        ((300, None, 20), 20),
        ((0, 20), 0),
        ((-5, 20), 0),
    ],
)
def test_the_shortest_time_counts(
    seconds: tuple[int | None, ...], expected: int | None
) -> None:
    """A negative time counts as 0; without any time the pod stays for ever."""
    assert tolerated_seconds(tolerates_a(each) for each in seconds) == expected


PLANNED = Eviction("u", 0.0, 60.0, (A,))


@pytest.mark.parametrize(
    ("planned", "taints", "used", "expected"),
    [
        # A pod without a plan.
        (None, (), [], None),
        (None, (A,), [tolerates_a()], None),
        (None, (A,), None, Eviction("u", 10.0, 10.0, (A,))),
        (None, (A,), [tolerates_a(0)], Eviction("u", 10.0, 10.0, (A,))),
        (None, (A,), [tolerates_a(5)], Eviction("u", 10.0, 15.0, (A,))),
        # A pod whose eviction is planned.
        (PLANNED, (), [], None),
        (PLANNED, (A,), [tolerates_a()], None),
        (PLANNED, (A,), None, Eviction("u", 10.0, 10.0, (A,))),
        # Upstream never changes the time of an eviction that is planned.
        (PLANNED, (A,), [tolerates_a(5)], PLANNED),
        (PLANNED, (A,), [tolerates_a(500)], PLANNED),
        (PLANNED, (A, B), [tolerates_a(60), tolerates_b(5)], PLANNED),
        # The taint that it was planned for is gone; the other is tolerated longer.
        (PLANNED, (B,), [tolerates_b(300)], Eviction("u", 0.0, 300.0, (B,))),
        (PLANNED, (B,), [tolerates_b(20)], Eviction("u", 0.0, 60.0, (B,))),
    ],
)
def test_a_pod_stays_or_is_evicted_later_or_now(
    planned: Eviction | None,
    taints: tuple[Taint, ...],
    used: list[Toleration] | None,
    expected: Eviction | None,
) -> None:
    assert plan(planned, "u", taints, used, 10.0) == expected


def test_an_eviction_that_failed_is_not_planned_anew() -> None:
    failed = Eviction("u", 0.0, 5.0, (A,), is_announced=True)
    assert plan(failed, "u", (A,), None, 10.0) == failed
    assert plan(failed, "u", (A,), [tolerates_a(500)], 10.0) == failed
    assert plan(failed, "u", (), [], 10.0) is None


def test_a_pod_that_was_to_go_at_once_may_tolerate_the_taints_now() -> None:
    silent = Eviction("u", 5.0, 5.0, (A,))
    assert plan(silent, "u", (A,), None, 10.0) == silent
    planned = Eviction("u", 10.0, 30.0, (A,))
    assert plan(silent, "u", (A,), [tolerates_a(20)], 10.0) == planned
    assert plan(silent, "u", (A,), [tolerates_a(0)], 10.0) == silent


def node(ready: str, *keys: str) -> Node:
    taints = tuple(Taint(key=each, effect="NoExecute") for each in keys)
    conditions = (NodeCondition(type="Ready", status=ready),)
    return Node(spec=NodeSpec(taints=taints), status=NodeStatus(conditions=conditions))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (node("True", "node.kubernetes.io/unreachable"), True),
        (node("True", "node.kubernetes.io/not-ready"), True),
        (node("Unknown", "node.kubernetes.io/unreachable"), False),
        (node("False", "node.kubernetes.io/not-ready"), False),
        (node("True", "node.kubernetes.io/unreachable", "dedicated"), False),
        (node("True", "dedicated"), False),
    ],
)
def test_a_ready_tainted_node_is_back(found: Node, *, expected: bool) -> None:
    assert is_back(found) == expected


def test_a_deletion_is_counted_with_its_delay_in_seconds() -> None:
    """Upstream multiplies the delay by 10 to the power of 18."""
    registry = CollectorRegistry()
    metrics = TaintEvictionMetrics(registry)
    metrics.deleted(0.2)
    metrics.deleted(7.0)
    prefix = "taint_eviction_controller_pod_deletion"
    found = {
        name: registry.get_sample_value(f"{prefix}{name}", labels)
        for name, labels in (
            ("s_total", {}),
            ("_duration_seconds_sum", {}),
            ("_duration_seconds_bucket", {"le": "0.5"}),
            ("_duration_seconds_count", {}),
        )
    }
    assert found == {
        "s_total": 2.0,
        "_duration_seconds_sum": 7.2,
        "_duration_seconds_bucket": 1.0,
        "_duration_seconds_count": 2.0,
    }
