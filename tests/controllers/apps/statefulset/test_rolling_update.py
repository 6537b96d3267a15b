"""Rolling updates that may make several pods unavailable."""

from typing import Any

import pytest

from controller_manager.api.core.v1 import Pod
from controller_manager.controllers.apps.statefulset.replicas import Settings
from controller_manager.controllers.apps.statefulset.rolling_update import (
    allowed_unavailable,
    outdated_pods,
)
from tests.controllers.apps.statefulset.builders import (
    UPDATING,
    pod,
    replicas_of,
    rolling,
    stateful_set,
)
from tests.controllers.apps.statefulset.test_ordering import NOW, steps

GATE = Settings(max_unavailable=True)
AS_UPSTREAM = Settings(replaces_stuck_pods=False, max_unavailable=True)
PARALLEL: dict[str, Any] = {"podManagementPolicy": "Parallel"}


BROKEN: dict[str, Any] = {
    "waiting": "CrashLoopBackOff",
    "since": "2025-12-31T23:51:00Z",  # ten minutes before
}


def old(ordinal: int, **fields: Any) -> Pod:
    return pod(ordinal, "web-old", **fields)


@pytest.mark.parametrize(
    ("value", "replicas", "allowed"),
    [(None, 4, 1), (2, 4, 2), ("50%", 5, 2), ("10%", 4, 1), ("100%", 4, 4)],
)
def test_a_percentage_is_rounded_down_to_one_at_least(
    value: Any, replicas: int, allowed: int
) -> None:
    """As upstream's getStatefulSetMaxUnavailable."""
    given = {} if value is None else {"maxUnavailable": value}
    subject = stateful_set(replicas, updateStrategy=rolling(**given))
    assert allowed_unavailable(replicas_of(subject)) == allowed


@pytest.mark.parametrize(
    ("pods", "settings", "expected"),
    [
        ([old(0), old(1), old(2), old(3)], GATE, ["replace web-3", "replace web-2"]),
        ([old(0), old(1), old(2), pod(3, ready=False)], GATE, ["replace web-2"]),
        ([old(0), old(1), pod(2, ready=False), pod(3, ready=False)], GATE, []),
        (
            [old(0, **BROKEN), old(1, **BROKEN), old(2), old(3)],
            GATE,
            ["replace web-1", "replace web-0"],
        ),
        ([old(0, ready=False), old(1, ready=False), old(2), old(3)], GATE, []),
        ([old(0, **BROKEN), old(1, **BROKEN), old(2), old(3)], AS_UPSTREAM, []),
        (
            [old(0, ready=False), old(1, ready=False), old(2), old(3)],
            AS_UPSTREAM,
            [],
        ),
        (
            [old(0, ready=False), old(1), old(2), old(3)],
            AS_UPSTREAM,
            ["replace web-3"],
        ),
    ],
)
def test_the_gate_allows_several_pods_to_be_unavailable(
    pods: list[Pod], settings: Settings, expected: list[str]
) -> None:
    """Old pods that are broken need no budget here."""
    strategy = rolling(maxUnavailable=2)
    subject = stateful_set(4, updateStrategy=strategy, **PARALLEL)
    seen = replicas_of(subject, *pods, revisions=UPDATING, settings=settings)
    assert steps(seen) == expected


def test_thousands_of_broken_pods_are_found_without_comparing_pods(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each comparison looks at all fields of two pods."""
    compared = 0

    def count(_: Pod, __: object) -> object:
        nonlocal compared
        compared += 1
        return NotImplemented

    strategy = rolling(maxUnavailable=102)
    subject = stateful_set(200, updateStrategy=strategy, **PARALLEL)
    pods = [old(each, **(BROKEN if each < 100 else {})) for each in range(200)]
    seen = replicas_of(subject, *pods, revisions=UPDATING, settings=GATE)
    monkeypatch.setattr(Pod, "__eq__", count)
    replaced = outdated_pods(seen, NOW)
    names = [f"web-{each}" for each in (*range(99, -1, -1), 199, 198)]
    assert [each.metadata.name for each in replaced] == names
    assert compared == 0


def test_without_the_gate_it_is_one_at_a_time() -> None:
    """The field maxUnavailable has no effect."""
    subject = stateful_set(3, updateStrategy=rolling(maxUnavailable=2), **PARALLEL)
    pods = [old(0), old(1), old(2)]
    assert steps(replicas_of(subject, *pods, revisions=UPDATING)) == ["replace web-2"]


def test_the_partition_holds_for_several_pods_too() -> None:
    """Nothing below it is replaced."""
    subject = stateful_set(3, updateStrategy=rolling(2, maxUnavailable=3))
    pods = [old(0), old(1), old(2)]
    seen = replicas_of(subject, *pods, revisions=UPDATING, settings=GATE)
    assert steps(seen) == ["replace web-2"]
