"""The decisions of the replica set controller, as values."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller_manager.api.apps.v1 import ReplicaSetCondition, ReplicaSetStatus
from controller_manager.api.core import v1
from controller_manager.api.meta import ObjectMeta
from controller_manager.api.pods import next_availability
from controller_manager.control.replicas import ranking
from controller_manager.control.replicas.controller import (
    burst,
    calculate_status,
    differs_in_substance,
)
from tests.controllers.builders import pod, replica_set

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("active", "wanted", "count"),
    [(3, 3, 0), (1, 3, 2), (3, 1, -2), (0, 10_000, 500), (10_000, 0, -500)],
)
def test_excess_goes_in_bursts(active: int, wanted: int, count: int) -> None:
    assert burst(active, wanted) == count


def costly(cost: str | None, name: str = "p", **fields: Any) -> v1.Pod:
    """Return a pod with a deletion cost."""
    key = "controller.kubernetes.io/pod-deletion-cost"
    annotations = {} if cost is None else {key: cost}
    return pod(name, annotations=annotations, **fields)


def chosen_of(
    pods: Sequence[v1.Pod], related: Sequence[v1.Pod], count: int, now: datetime
) -> list[v1.Pod]:
    return ranking.choose_pods_to_delete(pods, related, count, now)


def first_to_go(*pods: v1.Pod, related: tuple[v1.Pod, ...] = ()) -> str:
    (chosen,) = chosen_of(pods, related, 1, NOW)
    (same,) = chosen_of(pods[::-1], related, 1, NOW)
    assert chosen == same
    return chosen.metadata.name


def test_the_criteria_count_in_upstreams_order() -> None:
    """Each criterion decides before all later ones."""
    assert first_to_go(pod("a", node=""), pod("b", phase="Pending")) == "a"
    assert first_to_go(pod("a", phase="Pending"), pod("b", ready=False)) == "a"
    assert first_to_go(pod("a", phase="Pending"), pod("b", phase="Unknown")) == "a"
    assert first_to_go(pod("a", ready=False), costly("-5", "b")) == "a"
    assert first_to_go(costly("-5", "a"), pod("b", restarts=9)) == "a"
    young = pod("a", since="2026-01-01T11:59:00Z")
    assert first_to_go(young, pod("b", restarts=9)) == "a"
    recent = pod("b", created="2026-01-01T11:59:00Z")
    assert first_to_go(pod("a", restarts=9), recent) == "a"
    assert first_to_go(recent, pod("a")) == "b"


def test_a_pod_that_shares_its_node_with_siblings_goes_first() -> None:
    crowded, alone = pod("a", node="n1"), pod("b", node="n2")
    related = (crowded, alone, pod("c", node="n1"))
    assert first_to_go(crowded, alone, related=related) == "a"


def test_among_pods_of_similar_age_the_uid_decides() -> None:
    """Otherwise the youngest failure domain would always be chosen."""
    older = pod("a", uid="1", since="2026-01-01T10:00:00Z")
    younger = pod("b", uid="2", since="2026-01-01T10:30:00Z")
    assert first_to_go(older, younger) == "a"
    much_younger = pod("c", uid="3", since="2026-01-01T11:59:00Z")
    assert first_to_go(older, much_younger) == "c"


@pytest.mark.parametrize(
    ("text", "cost"),
    [
        ("5", 5),
        ("-7", -7),
        ("-05", -5),
        ("0", 0),
        ("+5", 0),
        ("05", 0),
        ("x", 0),
        ("\u0665", 0),
        (str(2**31), 0),
        ("9" * 5000, 0),
    ],
)
def test_a_malformed_cost_counts_as_none(text: str, cost: int) -> None:
    """As in upstream."""
    assert ranking.deletion_cost(costly(text)) == cost


pods = st.builds(
    costly,
    name=st.text("abc", min_size=4, max_size=8),
    node=st.sampled_from(["", "n1", "n2"]),
    phase=st.sampled_from(["Pending", "Running", "Unknown"]),
    ready=st.booleans(),
    cost=st.sampled_from([None, "1", "-1"]),
    restarts=st.integers(0, 2),
    since=st.sampled_from(["2026-01-01T11:00:00Z", "2026-01-01T11:59:59Z"]),
    created=st.sampled_from(["2026-01-01T10:00:00Z", "2026-01-01T11:59:00Z"]),
)
many = st.lists(pods, min_size=1, max_size=8, unique_by=lambda each: each.metadata.uid)


@given(candidates=many, count=st.integers(0, 9))
def test_no_ready_pod_goes_while_an_unready_one_stays(
    candidates: list[v1.Pod], count: int
) -> None:
    alike = [
        msgspec.structs.replace(
            each,
            spec=msgspec.structs.replace(each.spec, node_name="n"),
            status=msgspec.structs.replace(each.status, phase="Running"),
        )
        for each in candidates
    ]
    chosen = chosen_of(alike, (), count, NOW)
    assert len(chosen) == min(count, len(alike))
    stays = [each for each in alike if each not in chosen]

    def ready(each: v1.Pod) -> bool:
        return (each.status.conditions or ())[0].status == "True"

    assert not (any(map(ready, chosen)) and not all(map(ready, stays)))


@given(candidates=many)
def test_the_order_does_not_depend_on_where_it_starts(candidates: list[v1.Pod]) -> None:
    """The order is total: it does not depend on the order of pods in the cache."""
    half = len(candidates) // 2
    forwards = chosen_of(candidates, (), half, NOW)
    backwards = chosen_of(candidates[::-1], (), half, NOW)

    def rank(each: v1.Pod) -> tuple[object, ...]:
        return (
            bool(each.spec.node_name),
            each.status.phase,
            (each.status.conditions or ())[0].status,
            each.metadata.annotations,
        )

    assert sorted(map(str, map(rank, forwards))) == sorted(
        map(str, map(rank, backwards))
    )


def test_the_age_ratio_compares_with_the_youngest_ready_pod() -> None:
    old = pod("a", created="2026-01-01T08:00:00Z")
    young = pod("b", created="2026-01-01T11:00:00Z")
    unready = pod("c", ready=False, created="2026-01-01T11:59:00Z")
    everyone = [old, young, unready]
    assert ranking.age_ratios(everyone, everyone, NOW) == [4.0, 1.0]
    assert ranking.age_ratios([unready], [unready], NOW) == []


def test_a_status_counts_what_the_pods_are() -> None:
    subject = replica_set("r", 3)
    spec = msgspec.structs.replace(subject.spec, min_ready_seconds=10)
    subject = msgspec.structs.replace(subject, spec=spec)
    labelled = msgspec.structs.replace(
        pod("a"),
        metadata=msgspec.structs.replace(pod("a").metadata, labels={"app": "web"}),
    )
    fresh = pod("b", since="2026-01-01T11:59:55Z")
    status = calculate_status(
        subject, [labelled, fresh, pod("c", ready=False)], [pod("d")], None, NOW
    )
    assert status == ReplicaSetStatus(
        replicas=3,
        fully_labeled_replicas=1,
        ready_replicas=2,
        available_replicas=1,
        terminating_replicas=1,
        observed_generation=1,
    )


def test_a_failure_becomes_a_condition_that_stays_as_first_reported() -> None:
    """Until there is no failure."""
    subject = replica_set("r", 3)
    status = calculate_status(subject, [pod()], [], ValueError("quota"), NOW)
    assert status.conditions == (
        ReplicaSetCondition(
            type="ReplicaFailure",
            status="True",
            last_transition_time="2026-01-01T12:00:00Z",
            reason="FailedCreate",
            message="quota",
        ),
    )
    failing = msgspec.structs.replace(subject, status=status)
    again = calculate_status(failing, [pod()], [], ValueError("other"), NOW)
    assert again.conditions == status.conditions
    assert calculate_status(failing, [pod()], [], None, NOW).conditions is None
    surplus = calculate_status(subject, [pod()] * 4, [], ValueError("x"), NOW)
    assert [each.reason for each in surplus.conditions or ()] == ["FailedDelete"]


def test_only_what_a_reader_can_see_is_substance() -> None:
    old = ReplicaSetStatus(replicas=1, observed_generation=1)
    new = ReplicaSetStatus(replicas=1, observed_generation=2, terminating_replicas=0)
    assert not differs_in_substance(old, new)
    assert differs_in_substance(old, msgspec.structs.replace(new, replicas=2))


def test_the_next_sync_is_when_the_next_pod_becomes_available() -> None:
    available = pod("a")
    soon = pod("b", since="2026-01-01T11:59:52Z")
    later = pod("c", since="2026-01-01T11:59:57Z")
    assert next_availability([available, soon, later], 10, NOW) == 2.0
    assert next_availability([available], 10, NOW) is None
    assert next_availability([soon], 0, NOW) is None


def test_a_status_that_counts_no_terminating_pods_is_compared_by_the_rest() -> None:
    status = ReplicaSetStatus(replicas=2, observed_generation=1)
    later = msgspec.structs.replace(status, observed_generation=2)
    counted = msgspec.structs.replace(later, terminating_replicas=0)
    assert not differs_in_substance(status, later)
    assert not differs_in_substance(status, counted)
    assert differs_in_substance(status, msgspec.structs.replace(later, replicas=3))


def test_a_replication_controller_has_a_status_of_its_own() -> None:
    """It has no number of terminating pods, and conditions of its own type."""
    subject = v1.ReplicationController(
        metadata=ObjectMeta(name="r", generation=4),
        spec=v1.ReplicationControllerSpec(replicas=3),
    )
    terminating = [pod("b")]
    status = calculate_status(subject, [pod()], terminating, ValueError("quota"), NOW)
    assert status == v1.ReplicationControllerStatus(
        replicas=1,
        fully_labeled_replicas=1,
        ready_replicas=1,
        available_replicas=1,
        observed_generation=4,
        conditions=(
            v1.ReplicationControllerCondition(
                type="ReplicaFailure",
                status="True",
                last_transition_time="2026-01-01T12:00:00Z",
                reason="FailedCreate",
                message="quota",
            ),
        ),
    )
    later = msgspec.structs.replace(status, observed_generation=5)
    assert not differs_in_substance(status, later)
    assert differs_in_substance(status, msgspec.structs.replace(later, replicas=2))
