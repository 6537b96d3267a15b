"""A rolling update replaces pods of a broken template, and waits for other pods."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from controller_manager.api.core.v1 import Pod
from controller_manager.controllers.apps.statefulset.ordering import (
    seconds_until_change,
)
from controller_manager.controllers.apps.statefulset.replicas import Replicas, Settings
from tests.controllers.apps.statefulset.builders import (
    UPDATING,
    pod,
    replicas_of,
    rolling,
    stateful_set,
)
from tests.controllers.apps.statefulset.test_ordering import steps

NOW = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
TEN_MINUTES_AGO: Final = "2025-12-31T23:51:00Z"
HALF_AN_HOUR_AGO: Final = "2025-12-31T23:31:00Z"
A_SECOND_LESS: Final = "2025-12-31T23:51:01Z"
PULL: Final = {"waiting": "ImagePullBackOff", "since": TEN_MINUTES_AGO}
"""The status of a pod whose image cannot be pulled."""


def old(ordinal: int, **fields: Any) -> Pod:
    return pod(ordinal, "web-old", **fields)


def starting(ordinal: int, revision: str = "web-old", **fields: Any) -> Pod:
    """Return a pod that has run without being ready for ten minutes."""
    return pod(ordinal, revision, ready=False, since=TEN_MINUTES_AGO, **fields)


def broken(ordinal: int, **fields: Any) -> Pod:
    """Return a pod of an update that was given up; its image cannot be pulled."""
    return pod(ordinal, "web-broken", **{**PULL, **fields})


def seen(*pods: Pod, strategy: dict[str, Any] | None = None, **more: Any) -> Replicas:
    subject = stateful_set(updateStrategy=strategy or rolling(), **more)
    return replicas_of(subject, *pods, revisions=UPDATING)


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        # kubernetes#67250: an update to a broken template was given up.
        ([old(0), old(1), broken(2)], ["replace web-2"]),
        ([broken(0), old(1), old(2)], ["replace web-0"]),
        ([broken(0, phase="Pending"), old(1), old(2)], ["replace web-0"]),
        # The very first template was broken.
        ([old(0, **PULL)], ["replace web-0"]),
        # The highest pod first, and no other pod while it terminates.
        ([old(0, **PULL), old(1, **PULL)], ["replace web-1"]),
        ([broken(0), old(1), broken(2)], ["replace web-2"]),
        ([broken(0), old(1), broken(2, terminating=True)], []),
        ([pod(0), old(1, **PULL), old(2, **PULL)], ["replace web-2"]),
        # The pod is only slow, and the sync waits for it.
        ([starting(0), old(1), broken(2)], []),
        ([old(0, **PULL), starting(1), starting(2)], ["replace web-0"]),
        # After a power cut all pods start.
        ([starting(0), starting(1), starting(2)], []),
        ([starting(0, "web-broken"), old(1), old(2)], []),
        # The current template works: this pod may recover.
        ([old(0, **PULL), old(1)], []),
        ([old(0), old(1, **PULL), old(2)], []),
        # The new template may be broken, too.
        ([old(0, **PULL), old(1, **PULL), pod(2, ready=False)], []),
        # The sync always waits for these pods.
        ([pod(0, **PULL)], []),
        ([broken(0, terminating=True)], []),
        ([pod(0, "", **PULL)], []),
    ],
)
def test_a_pod_whose_revision_does_not_work_is_replaced(
    pods: list[Pod], expected: list[str]
) -> None:
    """One at a time, the highest first."""
    assert steps(seen(*pods)) == expected


@pytest.mark.parametrize(
    ("fields", "is_broken"),
    [
        ({"waiting": "ImagePullBackOff"}, True),
        ({"waiting": "ErrImagePull"}, True),
        ({"waiting": "InvalidImageName"}, True),
        ({"waiting": "CreateContainerConfigError"}, True),
        ({"waiting": "CrashLoopBackOff"}, True),
        ({"waiting": "CrashLoopBackOff", "statuses": "initContainerStatuses"}, True),
        ({"waiting": "ContainerCreating"}, False),
        ({"waiting": "PodInitializing"}, False),
        ({"waiting": "ImagePullBackOff", "since": A_SECOND_LESS}, False),
        ({"waiting": "ImagePullBackOff", "since": None}, False),
        ({"unschedulable": "Unschedulable", "phase": "Pending"}, True),
        ({"unschedulable": "SchedulingGated", "phase": "Pending"}, False),
        ({"unschedulable": "Unschedulable", "since": A_SECOND_LESS}, False),
        ({"ready": False}, False),
    ],
)
def test_only_a_pod_that_fails_to_start_for_ten_minutes_is_replaced(
    fields: dict[str, Any], *, is_broken: bool
) -> None:
    """A pod that is only not ready yet may replay a log."""
    pods = [pod(0, "web-broken", **{"since": TEN_MINUTES_AGO, **fields})]
    assert steps(seen(*pods)) == (["replace web-0"] if is_broken else [])


def test_a_pod_that_starts_for_half_an_hour_is_not_broken_by_a_crash_a_moment_ago() -> (
    None
):
    """Ten minutes count from the first sync that sees the crash of a container."""
    crashed = pod(0, "web-broken", waiting="CrashLoopBackOff", since=HALF_AN_HOUR_AGO)
    subject = stateful_set(updateStrategy=rolling())

    def decided(seconds: float) -> tuple[list[str], float | None]:
        failing_since = {"web-0": NOW - timedelta(seconds=seconds)}
        found = replicas_of(
            subject, crashed, revisions=UPDATING, failing_since=failing_since
        )
        return steps(found), seconds_until_change(found, NOW)

    assert decided(5) == ([], 595)
    assert decided(599) == ([], 1)
    assert decided(600) == (["replace web-0"], None)


def test_a_longer_min_ready_seconds_is_waited_for() -> None:
    """A user who sets a long minReadySeconds expects a slow start."""
    assert steps(seen(broken(0), minReadySeconds=600)) == ["replace web-0"]
    assert steps(seen(broken(0), minReadySeconds=601)) == []


def test_the_set_is_synced_again_when_a_pod_begins_to_count_as_broken() -> None:
    """No event comes when ten minutes have passed."""
    soon = seen(broken(0, since="2026-01-01T00:00:30Z"), old(1))
    assert seconds_until_change(soon, NOW) == 570
    assert seconds_until_change(seen(pod(0, **PULL)), NOW) is None


def test_a_pod_that_is_ready_but_not_yet_available_is_waited_for() -> None:
    """It works."""
    recent = pod(0, "web-broken", since="2026-01-01T00:00:58Z")
    assert steps(seen(recent, minReadySeconds=9)) == []


@pytest.mark.parametrize("strategy", [{"type": "OnDelete"}, rolling(1)])
def test_only_a_rolling_update_replaces_and_only_from_the_partition_on(
    strategy: dict[str, Any],
) -> None:
    """The user wants the other pods to stay."""
    assert steps(seen(broken(0), strategy=strategy)) == []


def test_the_flag_waits_as_upstream_does() -> None:
    """For pods of every revision."""
    waiting = Settings(replaces_stuck_pods=False)
    subject = stateful_set()
    for pods in ([old(0), old(1), broken(2)], [old(0, **PULL)]):
        stuck = replicas_of(subject, *pods, revisions=UPDATING, settings=waiting)
        assert steps(stuck) == []
