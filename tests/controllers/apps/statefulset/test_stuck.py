"""Pods of a broken template are replaced, others are waited for."""

from datetime import UTC, datetime
from typing import Any

import pytest

from controller_manager.api.core.v1 import Pod
from controller_manager.controllers.apps.statefulset.view import Settings, View
from tests.controllers.apps.statefulset.builders import (
    UPDATING,
    pod,
    rolling,
    stateful_set,
    view,
)
from tests.controllers.apps.statefulset.test_decide import steps

NOW = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)


def old(ordinal: int, **fields: Any) -> Pod:
    return pod(ordinal, "web-old", **fields)


def broken(ordinal: int, **fields: Any) -> Pod:
    """Return a pod of an update that was given up; it is not ready."""
    return pod(ordinal, "web-broken", **{"ready": False, **fields})


def seen(*pods: Pod, strategy: dict[str, Any] | None = None, **more: Any) -> View:
    subject = stateful_set(updateStrategy=strategy or rolling(), **more)
    return view(subject, *pods, revisions=UPDATING)


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        # kubernetes#67250: an update to a broken template was given up.
        ([old(0), old(1), broken(2)], ["replace web-2"]),
        ([broken(0), old(1), old(2)], ["replace web-0"]),
        ([broken(0, phase="Pending"), old(1), old(2)], ["replace web-0"]),
        # The very first template was broken.
        ([old(0, ready=False)], ["replace web-0"]),
        ([old(0, ready=False), old(1, ready=False)], ["replace web-0"]),
        ([pod(0), old(1, ready=False), old(2, ready=False)], ["replace web-1"]),
        # The current template works: this pod may recover.
        ([old(0, ready=False), old(1)], []),
        ([old(0), old(1, ready=False), old(2)], []),
        # The new template may be broken, too.
        ([old(0, ready=False), old(1, ready=False), pod(2, ready=False)], []),
        # Pods that are waited for in any case.
        ([pod(0, ready=False)], []),
        ([broken(0, terminating=True)], []),
        ([pod(0, "", ready=False)], []),
    ],
)
def test_a_pod_whose_revision_does_not_work_is_replaced(
    pods: list[Pod], expected: list[str]
) -> None:
    """One at a time, the lowest first, because the sync ends there."""
    assert steps(seen(*pods)) == expected


def test_a_pod_that_is_ready_but_not_yet_available_is_waited_for() -> None:
    """It works."""
    recent = broken(0, ready=True, since="2026-01-01T00:00:58Z")
    assert steps(seen(recent, minReadySeconds=9)) == []


@pytest.mark.parametrize("strategy", [{"type": "OnDelete"}, rolling(1)])
def test_only_a_rolling_update_replaces_and_only_from_the_partition_on(
    strategy: dict[str, Any],
) -> None:
    """The user has asked for the rest to stay."""
    assert steps(seen(broken(0), strategy=strategy)) == []


def test_the_flag_waits_as_upstream_does() -> None:
    """For pods of every revision."""
    waiting = Settings(replaces_stuck_pods=False)
    subject = stateful_set()
    for pods in ([old(0), old(1), broken(2)], [old(0, ready=False)]):
        stuck = view(subject, *pods, revisions=UPDATING, settings=waiting)
        assert steps(stuck) == []
