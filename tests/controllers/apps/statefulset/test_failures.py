"""Pods that fail as soon as they exist are replaced with a growing delay."""

from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
import pytest
from msgspec.structs import replace

from controller_manager.api.core.v1 import Pod
from controller_manager.controllers.apps.statefulset.failures import (
    FailedPods,
    StartFailures,
)
from controller_manager.controllers.apps.statefulset.ordering import (
    plan_sync,
    seconds_until_change,
)
from controller_manager.controllers.apps.statefulset.replicas import Settings
from tests.clusters import EPOCH
from tests.controllers.apps.failing_node import Ticking
from tests.controllers.apps.statefulset.builders import (
    NOW,
    TEN_MINUTES_AGO,
    UPDATING,
    pod,
    pods_of,
    replicas_of,
    rolling,
    seen,
    stateful_set,
)
from tests.controllers.apps.statefulset.test_ordering import steps


def test_the_delay_ends_at_fifteen_minutes() -> None:
    clock, server, owner = Ticking(), Ticking(), stateful_set(1)
    failures, delays = FailedPods(clock, server), []
    for number in range(14):
        failed = pod(0, uid=f"p{number}", phase="Failed", created="", ready=False)
        held = failures.observe(owner, [failed])
        delays.append(held.get("web-0"))
        clock.seconds += held.get("web-0", 0.0)
        assert failures.observe(owner, [failed]) == {}
    assert delays == [None, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900, 900]


def test_names_that_are_not_wanted_are_forgotten() -> None:
    failures = FailedPods(Ticking(), Ticking())
    failed = pod(2, phase="Failed", created="", ready=False)
    failures.observe(stateful_set(3), [failed])
    assert KEY in failures
    failures.observe(stateful_set(2), [failed])
    assert KEY not in failures
    failures.gone(KEY, failed)
    failures.forget(KEY)
    assert KEY not in failures


@pytest.mark.parametrize("pods", ["new-0, new-1 failed unready", "new-0"])
def test_a_held_pod_is_neither_deleted_nor_created(pods: str) -> None:
    """The next sync comes when the first delay ends."""
    found = replace(seen(pods), held={"web-1": 8.0, "web-2": 4.0})
    assert seconds_until_change(found, NOW) == 4.0
    assert len(plan_sync(found, NOW).reasons) == 1


KEY: Final = "default/web"
CRASHED: Final = "CrashLoopBackOff"
PULL: Final = "ImagePullBackOff"


def starting(
    restarts: int = 0, waiting: str = "", *, uid: str = "u", **more: Any
) -> Pod:
    """Return a pod that is not ready: one container starts, "c" waits or runs."""
    conditions = more.pop("conditions", [{"type": "Ready", "status": "False"}])
    state = {"waiting": {"reason": waiting}} if waiting else {}
    container = {"name": "c", "restartCount": restarts, "state": state, **more}
    statuses = [{"name": "db"}, container]
    status = {
        "phase": "Running",
        "conditions": conditions,
        "containerStatuses": statuses,
    }
    return msgspec.convert({"metadata": {"uid": uid}, "status": status}, Pod)


def unscheduled(reason: str) -> Pod:
    condition = {"type": "PodScheduled", "status": "False", "reason": reason}
    return starting(conditions=[condition])


READY: Final = [{"type": "Ready", "status": "True"}]
STATES: Final = {
    "pulls": starting(0, PULL),
    "fails": starting(0, "ErrImagePull"),
    "creates": starting(0, "ContainerCreating"),
    "another": starting(0, PULL, uid="v"),
    "gated": unscheduled("SchedulingGated"),
    "unscheduled": unscheduled("Unschedulable"),
    **{f"runs{count}": starting(count) for count in range(3)},
    **{f"crashed{count}": starting(count, CRASHED) for count in range(1, 4)},
    "started2": starting(2, ready=True),
    "ready2": starting(2, conditions=READY),
}
"""Pods by what is seen of them, with the restarts of the container."""


@pytest.mark.parametrize(
    ("looks", "since"),
    [
        # The container waits all the time.
        ("0 pulls, 5000 pulls", 0),
        ("0 pulls, 9 fails", 0),
        ("0 unscheduled, 5000 unscheduled", 0),
        # The failure begins after half an hour, while another container is starting.
        ("0 runs0, 1800 crashed1", 1800),
        ("0 gated, 2400 unscheduled", 2400),
        # The container crashes again and again.
        ("0 crashed1, 300 runs2, 310 crashed2, 910 crashed3", 0),
        # The container ran for a long time before it crashed again, seen or not.
        ("0 crashed1, 601 crashed2", 601),
        ("0 crashed1, 20 runs2, 700 runs2, 710 crashed2", 710),
        # The container was ready in between, or its pod was.
        ("0 crashed1, 20 started2, 30 crashed2", 30),
        ("0 crashed1, 20 ready2, 30 crashed2", 30),
        # The kubelet could start the container; then it could not.
        ("0 pulls, 20 creates, 30 pulls", 30),
        # A pod of the same name is another pod.
        ("0 another, 20 pulls", 20),
    ],
)
def test_a_failure_counts_from_the_sync_that_sees_it(looks: str, since: float) -> None:
    """An interruption begins the time anew: a database may begin its replay again."""
    clock = Ticking()
    memory = StartFailures(clock)
    found: object = None
    for look in looks.split(", "):
        seconds, state = look.split()
        clock.seconds = float(seconds)
        found = memory.observe(KEY, [STATES[state]])
    assert found == {"u": EPOCH + timedelta(seconds=since - clock.seconds)}


@pytest.mark.parametrize(
    "state",
    [
        STATES["runs2"],
        starting(1, "ContainerCreating"),
        starting(1, CRASHED, conditions=READY),
        STATES["gated"],
    ],
)
def test_a_pod_that_can_start_has_no_start_failure(state: Pod) -> None:
    """Also a pod whose container crashed a moment ago and runs again."""
    memory = StartFailures(Ticking())
    memory.observe(KEY, [starting(1, CRASHED)])
    assert memory.observe(KEY, [state]) == {}


@pytest.mark.parametrize("left", [[], [starting(uid="v")], [starting(0)]])
def test_no_failures_are_kept_of_pods_that_are_gone_or_work(left: list[Pod]) -> None:
    memory = StartFailures(Ticking())
    memory.observe(KEY, [STATES["pulls"]])
    memory.observe(KEY, left)
    assert memory._pods == {}
    memory.observe(KEY, [STATES["pulls"]])
    memory.forget(KEY)
    assert memory._pods == {}


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        # kubernetes#67250: an update to a broken template was given up.
        ("old-0, old-1, broken-2 stuck", "replace web-2"),
        ("broken-0 stuck, old-1, old-2", "replace web-0"),
        ("broken-0 stuck pending, old-1, old-2", "replace web-0"),
        # The very first template was broken.
        ("old-0 stuck", "replace web-0"),
        # The highest pod first, and no other pod while it terminates.
        ("old-0 stuck, old-1 stuck", "replace web-1"),
        ("broken-0 stuck, old-1, broken-2 stuck", "replace web-2"),
        ("broken-0 stuck, old-1, broken-2 stuck terminating", ""),
        ("new-0, old-1 stuck, old-2 stuck", "replace web-2"),
        # The pod is only slow, and the sync waits for it.
        ("old-0 slow, old-1, broken-2 stuck", ""),
        ("old-0 stuck, old-1 slow, old-2 slow", "replace web-0"),
        # After a power cut all pods start.
        ("old-0 slow, old-1 slow, old-2 slow", ""),
        ("broken-0 slow, old-1, old-2", ""),
        # The current template works: this pod may recover.
        ("old-0 stuck, old-1", ""),
        ("old-0, old-1 stuck, old-2", ""),
        # The new template may be broken, too.
        ("old-0 stuck, old-1 stuck, new-2 unready", ""),
        # The sync always waits for these pods.
        ("new-0 stuck", ""),
        ("broken-0 stuck terminating", ""),
        ("bare-0 stuck", ""),
    ],
)
def test_a_pod_of_a_bad_revision_is_replaced(pods: str, expected: str) -> None:
    """One at a time, the highest first; with the flag, the sync waits as upstream."""
    assert steps(seen(pods)) == expected
    assert steps(seen(pods, settings=Settings(replaces_stuck_pods=False))) == ""


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
        ({"waiting": "ImagePullBackOff", "since": "2025-12-31T23:51:01Z"}, False),
        ({"waiting": "ImagePullBackOff", "since": None}, False),
        ({"unschedulable": "Unschedulable", "phase": "Pending"}, True),
        ({"unschedulable": "SchedulingGated", "phase": "Pending"}, False),
        ({"unschedulable": "Unschedulable", "since": "2025-12-31T23:51:01Z"}, False),
        ({"ready": False}, False),
    ],
)
def test_only_ten_minutes_are_long(fields: dict[str, Any], *, is_broken: bool) -> None:
    """A pod that is only not ready yet may replay a log."""
    failing = pod(0, "web-broken", **{"since": TEN_MINUTES_AGO, **fields})
    assert steps(seen("", 3, failing)) == ("replace web-0" if is_broken else "")


def test_a_pod_that_starts_slowly_is_not_broken_by_its_last_crash() -> None:
    """Ten minutes count from the first sync that sees the crash of a container."""
    since = "2025-12-31T23:31:00Z"
    crashed = pod(0, "web-broken", waiting=CRASHED, since=since)

    def decided(seconds: float) -> tuple[str, float | None]:
        failing: dict[str, datetime] = {"web-0": NOW - timedelta(seconds=seconds)}
        found = replicas_of(
            stateful_set(), crashed, revisions=UPDATING, failing_since=failing
        )
        return steps(found), seconds_until_change(found, NOW)

    assert decided(5) == ("", 595)
    assert decided(599) == ("", 1)
    assert decided(600) == ("replace web-0", None)


def test_a_longer_min_ready_seconds_is_waited_for() -> None:
    """A user who sets a long minReadySeconds expects a slow start."""
    assert steps(seen("broken-0 stuck", minReadySeconds=600)) == "replace web-0"
    assert steps(seen("broken-0 stuck", minReadySeconds=601)) == ""
    assert steps(seen("broken-0 recent", minReadySeconds=9)) == ""


def test_the_set_is_synced_again_when_a_pod_begins_to_count_as_broken() -> None:
    """No event comes when ten minutes have passed."""
    broken = pod(0, "web-broken", waiting=PULL, since="2026-01-01T00:00:30Z")
    soon = seen("", 3, broken, *pods_of("old-1"))
    assert seconds_until_change(soon, NOW) == 570
    assert seconds_until_change(seen("new-0 stuck"), NOW) is None


@pytest.mark.parametrize("strategy", [{"type": "OnDelete"}, rolling(1)])
def test_only_updates_from_the_partition_on_replace(strategy: dict[str, Any]) -> None:
    """The user wants the other pods to stay."""
    assert steps(seen("broken-0 stuck", updateStrategy=strategy)) == ""
