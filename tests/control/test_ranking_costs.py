"""The cost of choosing pods to delete grows with the number of pods, no faster."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from unittest import mock

import pytest

from controller_manager.api.core.v1 import Pod
from controller_manager.control.replicas import ranking
from controller_manager.control.replicas.ranking import choose_pods_to_delete
from tests.controllers.builders import pod
from tests.steps import Steps

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def many(count: int) -> list[Pod]:
    """Return pods that differ in all properties that the ranking compares."""
    return [
        pod(
            f"p{number}",
            uid=f"{number * 7919 % 104729:06}",
            node=f"n{number % 50}",
            ready=number % 3 > 0,
            ready_since=f"2026-01-01T{number % 11:02}:{number % 59:02}:00Z",
            restarts=number % 4,
        )
        for number in range(count)
    ]


@contextmanager
def looks() -> Iterator[Counter[str]]:
    """Count how often the restarts of each pod are read."""
    counted: Counter[str] = Counter()
    look = ranking.most_restarts

    def counting(each: Pod) -> tuple[int, int]:
        counted[each.metadata.name] += 1
        return look(each)

    with mock.patch.object(ranking, "most_restarts", counting):
        yield counted


def test_each_pod_is_ranked_once() -> None:
    """Also if each of them is compared with many others."""
    pods = many(300)
    with looks() as counted:
        choose_pods_to_delete(pods, pods, 100, NOW)
    assert counted == {each.metadata.name: 1 for each in pods}


def steps_of(count: int) -> int:
    pods = many(count)
    with Steps() as steps:
        choose_pods_to_delete(pods, pods, 100, NOW)
    return steps.number


@pytest.mark.slow
def test_a_pod_costs_the_same_among_many() -> None:
    """Ten times the pods take ten times the steps."""
    assert steps_of(10_000) <= 10.5 * steps_of(1000)
