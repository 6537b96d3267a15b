"""The taints, conditions and labels of a node, and eviction rates, as tables."""

import math
from typing import Any, Final

import pytest

from controller_manager.api.core.scheduling import Taint
from controller_manager.api.core.v1 import (
    Node,
    NodeCondition,
    NodeMeta,
    NodeSpec,
    NodeStatus,
)
from controller_manager.controllers.nodes.nodelifecycle.health import (
    READY,
    GracePeriods,
    NodeHealth,
    NodeRecord,
    NodeTracker,
    observe,
    unknown_conditions,
)
from controller_manager.controllers.nodes.nodelifecycle.taints import (
    has_opposite,
    labels_to_set,
    no_execute_taints,
    no_schedule_taints,
    taints_json,
    without_no_execute,
)
from controller_manager.controllers.nodes.nodelifecycle.topology import (
    Count,
    Disruption,
    Rates,
    ZoneState,
    disruption,
    is_excluded,
    zone_of,
)

NOW = "2026-01-01T00:00:09Z"
BORN = "2026-01-01T00:00:00Z"
RATES = Rates(normal=0.1, secondary=0.01, large_size=5, unhealthy_part=0.55)
NORMAL, PARTIAL, FULL = ZoneState.NORMAL, ZoneState.PARTIAL, ZoneState.FULL


def make_node(*taints: str, cordoned: bool = False, **conditions: str) -> Node:
    """Return a node with conditions by type, and taints as ``key:effect``."""
    return Node(
        metadata=NodeMeta(name="n", creation_timestamp=BORN),
        spec=NodeSpec(
            unschedulable=cordoned,
            taints=tuple(make_taint(each, "old") for each in taints) or None,
        ),
        status=NodeStatus(
            conditions=tuple(
                NodeCondition(type=each, status=status, last_heartbeat_time=BORN)
                for each, status in conditions.items()
            )
        ),
    )


def make_taint(text: str, time: str = NOW) -> Taint:
    """Return a taint; a short key stands for one of Kubernetes."""
    key, _, effect = text.partition(":")
    prefix = "" if "/" in key else "node.kubernetes.io/"
    return Taint(key=f"{prefix}{key}", effect=effect, time_added=time)


PRESSURES = {
    "MemoryPressure": "memory-pressure:NoSchedule",
    "DiskPressure": "disk-pressure:NoSchedule",
    "NetworkUnavailable": "network-unavailable:NoSchedule",
    "PIDPressure": "pid-pressure:NoSchedule",
}


@pytest.mark.parametrize(
    ("node", "kept", "new"),
    [
        (make_node(Ready="False"), "", "not-ready:NoSchedule"),
        (make_node(Ready="Unknown"), "", "unreachable:NoSchedule"),
        (
            make_node(cordoned=False, Ready="True", **dict.fromkeys(PRESSURES, "True")),
            "",
            " ".join(PRESSURES.values()),
        ),
        (make_node(cordoned=True), "", "unschedulable:NoSchedule"),
        (make_node("unschedulable:NoSchedule", Ready="True"), "", ""),
        (
            make_node("a/b:NoSchedule", "not-ready:NoExecute", Ready="False"),
            "a/b:NoSchedule not-ready:NoExecute",
            "not-ready:NoSchedule",
        ),
        (
            make_node("not-ready:NoSchedule", Ready="Unknown"),
            "",
            "unreachable:NoSchedule",
        ),
    ],
)
def test_taints_follow_the_conditions(node: Node, kept: str, new: str) -> None:
    stay = [make_taint(each, "old") for each in kept.split()]
    come = [make_taint(each) for each in new.split()]
    assert no_schedule_taints(node, NOW) == (*stay, *come)


@pytest.mark.parametrize(
    "node",
    [
        make_node(),
        make_node(Ready="True", MemoryPressure="False", NetworkUnavailable="Unknown"),
        make_node("not-ready:NoSchedule", "not-ready:NoExecute", Ready="False"),
        make_node("not-ready:PreferNoSchedule", "not-ready:NoExecute", Ready="True"),
    ],
)
def test_no_schedule_taints_that_are_right_stay(node: Node) -> None:
    assert no_schedule_taints(node, NOW) is None


@pytest.mark.parametrize(
    ("node", "expected", "opposite"),
    [
        (make_node(Ready="False"), (make_taint("not-ready:NoExecute"),), False),
        (make_node(Ready="Unknown"), (make_taint("unreachable:NoExecute"),), False),
        (
            make_node("unreachable:NoExecute", Ready="False"),
            (make_taint("not-ready:NoExecute"),),
            True,
        ),
        (make_node("not-ready:NoExecute", Ready="False"), None, False),
        (make_node("not-ready:NoExecute", Ready="True"), (), False),
        (make_node(Ready="True"), None, False),
        (make_node(), None, False),
    ],
)
def test_no_execute_taints_follow_the_health(
    node: Node, expected: tuple[Taint, ...] | None, *, opposite: bool
) -> None:
    """A node never has both keys."""
    assert (no_execute_taints(node, NOW), has_opposite(node)) == (expected, opposite)


def test_no_execute_taints_of_others_are_not_removed() -> None:
    node = make_node("a/b:NoExecute", "unreachable:NoExecute", Ready="Unknown")
    assert without_no_execute(node) == (make_taint("a/b:NoExecute", "old"),)


def test_taints_are_written_with_all_their_fields() -> None:
    taint = Taint(key="a", value="b", effect="NoExecute", time_added=NOW)
    written = {"key": "a", "value": "b", "effect": "NoExecute", "timeAdded": NOW}
    assert taints_json([taint, Taint(key="c", effect="NoSchedule")]) == [
        written,
        {"key": "c", "effect": "NoSchedule"},
    ]
    assert taints_json([]) is None


def _unknown(kind: str) -> dict[str, Any]:
    return {
        "type": kind,
        "status": "Unknown",
        "reason": "NodeStatusUnknown",
        "message": "Kubelet stopped posting node status.",
        "lastTransitionTime": NOW,
    }


def _never(kind: str) -> dict[str, Any]:
    return _unknown(kind) | {
        "reason": "NodeStatusNeverUpdated",
        "message": "Kubelet never posted node status.",
        "lastHeartbeatTime": BORN,
    }


MEMORY, DISK, PID = "MemoryPressure", "DiskPressure", "PIDPressure"
HALF_KNOWN: dict[str, Any] = {DISK: "False", "NetworkUnavailable": "False"}


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (make_node(), [_never(each) for each in ("Ready", MEMORY, DISK, PID)]),
        (
            make_node(Ready="True", MemoryPressure="Unknown", **HALF_KNOWN),
            [_unknown("Ready"), _unknown(DISK), _never(PID)],
        ),
        (make_node(Ready="Unknown", DiskPressure="False"), []),
    ],
)
def test_silence_makes_unknown(node: Node, expected: list[dict[str, Any]]) -> None:
    assert unknown_conditions(node, NOW) == expected


def health(since: float, heartbeat: str | None = BORN) -> NodeHealth:
    return NodeHealth(since, posted=heartbeat is not None, heartbeat=heartbeat)


@pytest.mark.parametrize(
    ("known", "node", "expected"),
    [
        (None, make_node(), health(93.0, None)),
        (None, make_node(Ready="True"), health(100.0)),
        (health(50.0), make_node(Ready="True"), health(50.0)),
        (health(50.0, "2027-01-01T00:00:00Z"), make_node(Ready="True"), health(100.0)),
        (health(50.0, None), make_node(), health(50.0, None)),
        (health(50.0), make_node(), health(100.0, None)),
    ],
)
def test_a_new_heartbeat_is_a_sign_of_life(
    known: NodeHealth | None, node: Node, expected: NodeHealth
) -> None:
    assert observe(known, node, 100.0, 7.0) == expected


@pytest.mark.parametrize(
    ("count", "state", "rate"),
    [
        (Count(0, 1), FULL, 0.1),
        (Count(1, 0), NORMAL, 0.1),
        (Count(1, 2), NORMAL, 0.1),
        (Count(1, 3), PARTIAL, 0.0),
        (Count(3, 3), NORMAL, 0.1),
        (Count(2, 3), PARTIAL, 0.0),
        (Count(2, 4), PARTIAL, 0.01),
    ],
)
def test_zones_have_rates(count: Count, state: ZoneState, rate: float) -> None:
    assert RATES.state_of(count) is state
    assert math.isclose(RATES.rate(state, count.size), rate)


UP, DOWN, HALF = Count(3, 0), Count(0, 3), Count(2, 3)


STAYED_UP: Final = (False, False)
WENT_DOWN: Final = (False, True)
RECOVERED: Final = (True, False)
STAYED_DOWN: Final = (True, True)
"""Whether all zones were and are down."""


@pytest.mark.parametrize(
    ("before", "counts", "expected"),
    [
        ({}, {}, Disruption(*STAYED_UP, {}, {})),
        ({}, {"a": UP}, Disruption(*STAYED_UP, {"a": NORMAL}, {"a": 0.1})),
        ({"a": NORMAL}, {"a": UP}, Disruption(*STAYED_UP, {"a": NORMAL}, {})),
        ({"a": NORMAL}, {"a": HALF}, Disruption(*STAYED_UP, {"a": PARTIAL}, {"a": 0})),
        ({"a": NORMAL}, {"a": DOWN}, Disruption(*WENT_DOWN, {"a": FULL}, {"a": 0})),
        ({}, {"a": DOWN}, Disruption(*WENT_DOWN, {"a": FULL}, {"a": 0})),
        ({"a": FULL}, {"a": DOWN}, Disruption(*STAYED_DOWN, {"a": FULL}, {})),
        ({"a": FULL}, {"a": HALF}, Disruption(*RECOVERED, {"a": PARTIAL}, {"a": 0})),
        (
            {"a": NORMAL, "b": NORMAL},
            {"a": DOWN, "b": UP},
            Disruption(*STAYED_UP, {"a": FULL, "b": NORMAL}, {"a": 0.1}),
        ),
        (
            {"a": FULL, "b": NORMAL},
            {"a": DOWN},
            Disruption(*STAYED_DOWN, {"a": FULL}, {}),
        ),
        (
            {"a": FULL},
            {"a": DOWN, "b": UP},
            Disruption(*RECOVERED, {"a": FULL, "b": NORMAL}, {"a": 0.1, "b": 0.1}),
        ),
        (
            {"a": FULL},
            {"a": DOWN, "b": DOWN},
            Disruption(*STAYED_DOWN, {"a": FULL, "b": FULL}, {"b": 0}),
        ),
    ],
)
def test_the_zones_decide_together(
    before: dict[str, ZoneState], counts: dict[str, Count], expected: Disruption
) -> None:
    assert disruption(before, counts, RATES) == expected


@pytest.mark.parametrize(
    ("labels", "zone"),
    [
        ({}, ""),
        ({"topology.kubernetes.io/zone": "z"}, ":\x00:z"),
        ({"topology.kubernetes.io/region": "r"}, "r:\x00:"),
        (
            {
                "topology.kubernetes.io/region": "new",
                "failure-domain.beta.kubernetes.io/region": "r",
                "failure-domain.beta.kubernetes.io/zone": "z",
            },
            "r:\x00:z",
        ),
    ],
)
def test_a_zone_is_a_pair_of_labels(labels: dict[str, str], zone: str) -> None:
    """The old labels win, as upstream."""
    assert zone_of(Node(metadata=NodeMeta(labels=labels))) == zone


def test_a_label_excludes_a_node_from_the_count() -> None:
    labels = {"node.kubernetes.io/exclude-disruption": ""}
    assert is_excluded(Node(metadata=NodeMeta(labels=labels)))
    assert not is_excluded(Node())


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({}, {}),
        ({"beta.kubernetes.io/os": "linux"}, {}),
        ({"kubernetes.io/os": "linux"}, {"beta.kubernetes.io/os": "linux"}),
        ({"kubernetes.io/arch": "a", "beta.kubernetes.io/arch": "a"}, {}),
        (
            {"kubernetes.io/arch": "a", "beta.kubernetes.io/arch": "b"},
            {"beta.kubernetes.io/arch": "a"},
        ),
    ],
)
def test_beta_labels_follow(labels: dict[str, str], expected: dict[str, str]) -> None:
    assert labels_to_set(labels) == expected


GRACE = GracePeriods(startup=60, monitor=50)


def _records(count: int) -> NodeTracker:
    records = NodeTracker(GRACE)
    ready = NodeStatus(conditions=(NodeCondition(type="Ready", status="True"),))
    for number in range(count):
        node = Node(metadata=NodeMeta(name=f"n{number}"), status=ready)
        record = NodeRecord(node, NodeHealth(0.0, posted=True, heartbeat=None))
        records.add(record)
        records.set_status(record, READY)
    return records


def test_a_healthy_node_is_checked_once_in_its_grace_period() -> None:
    records = _records(1000)
    for second in range(0, 500, 10):
        for number in range(1000):
            records.renewed(f"n{number}", str(second), float(second))
        assert records.due(second + 5.0) == []
    assert records.counts()[""].size == 1000
    assert records.due(539.0) == []
    assert len(records.due(600.0)) == 1000
    assert records.due(600.0) == []


def test_no_state_is_kept_of_nodes_that_are_gone() -> None:
    records = _records(10)
    for number in range(10):
        records.remove(f"n{number}")
    records.renewed("n1", "1", 1.0)
    assert records.due(100.0) == []
    assert (len(records._by_name), records.counts(), records.unhealthy) == (0, {}, {})


def test_a_lease_without_a_time_is_no_heartbeat() -> None:
    """A user may have created it again, or have edited it."""
    records = _records(1)
    records.renewed("n0", "1", 10.0)
    records.renewed("n0", None, 20.0)
    record = records.get("n0")
    assert record is not None
    assert (record.renewed, record.renewed_at, record.heard_at) == ("1", 10.0, 10.0)
