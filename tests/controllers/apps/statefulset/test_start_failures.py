"""The time of a start failure begins when a sync first sees the failure."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec
import pytest

from controller_manager.api.core.v1 import Pod
from controller_manager.controllers.apps.statefulset.failures import StartFailures

EPOCH: Final = datetime(2026, 1, 1, tzinfo=UTC)
KEY: Final = "default/web"
READY: Final = {"type": "Ready", "status": "True"}
NOT_READY: Final = {"type": "Ready", "status": "False"}


class Ticking:
    """A clock that shows the same time until a test sets it."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        return EPOCH + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds


def container(restarts: int, waiting: str = "", **more: Any) -> dict[str, Any]:
    """Return the status of the container "c", which waits or runs."""
    state = {"waiting": {"reason": waiting}} if waiting else {}
    return {"name": "c", "restartCount": restarts, "state": state, **more}


def pod(*containers: dict[str, Any], uid: str = "u", **status: Any) -> Pod:
    """Return a pod that is not ready, with one more container that is starting."""
    content = {
        "phase": "Running",
        "conditions": [NOT_READY],
        "containerStatuses": [{"name": "db"}, *containers],
        **status,
    }
    return msgspec.convert({"metadata": {"uid": uid}, "status": content}, Pod)


CRASHED: Final = "CrashLoopBackOff"
PULL: Final = "ImagePullBackOff"
UNSCHEDULABLE: Final = pod(
    phase="Pending",
    conditions=[{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
)
GATED: Final = pod(
    phase="Pending",
    conditions=[
        {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
    ],
)


@pytest.mark.parametrize(
    ("seen", "since"),
    [
        # The container waits all the time.
        ([(0, pod(container(0, PULL))), (5000, pod(container(0, PULL)))], 0),
        ([(0, pod(container(0, PULL))), (9, pod(container(0, "ErrImagePull")))], 0),
        ([(0, UNSCHEDULABLE), (5000, UNSCHEDULABLE)], 0),
        # The failure begins after half an hour, while another container is starting.
        ([(0, pod(container(0))), (1800, pod(container(1, CRASHED)))], 1800),
        ([(0, GATED), (2400, UNSCHEDULABLE)], 2400),
        # The container crashes again and again.
        (
            [
                (0, pod(container(1, CRASHED))),
                (300, pod(container(2))),
                (310, pod(container(2, CRASHED))),
                (910, pod(container(3, CRASHED))),
            ],
            0,
        ),
        # The container ran for a long time before it crashed again, seen or not.
        ([(0, pod(container(1, CRASHED))), (601, pod(container(2, CRASHED)))], 601),
        (
            [
                (0, pod(container(1, CRASHED))),
                (20, pod(container(2))),
                (700, pod(container(2))),
                (710, pod(container(2, CRASHED))),
            ],
            710,
        ),
        # The container was ready in between, or its pod was.
        (
            [
                (0, pod(container(1, CRASHED))),
                (20, pod(container(2, ready=True))),
                (30, pod(container(2, CRASHED))),
            ],
            30,
        ),
        (
            [
                (0, pod(container(1, CRASHED))),
                (20, pod(container(2), conditions=[READY])),
                (30, pod(container(2, CRASHED))),
            ],
            30,
        ),
        # The kubelet could start the container; then it could not.
        (
            [
                (0, pod(container(0, PULL))),
                (20, pod(container(0, "ContainerCreating"))),
                (30, pod(container(0, PULL))),
            ],
            30,
        ),
        # A pod of the same name is another pod.
        (
            [
                (0, pod(container(0, PULL), uid="v")),
                (20, pod(container(0, PULL))),
            ],
            20,
        ),
    ],
)
def test_a_start_failure_counts_from_the_first_sync_that_sees_it(
    seen: list[tuple[float, Pod]], since: float
) -> None:
    """An interruption begins the time anew: a database may begin its replay again."""
    clock = Ticking()
    memory = StartFailures(clock)
    found: object = None
    for clock.seconds, each in seen:
        found = memory.observe(KEY, [each])
    assert found == {"u": EPOCH + timedelta(seconds=since)}


@pytest.mark.parametrize(
    "state",
    [
        pod(container(2)),
        pod(container(1, "ContainerCreating")),
        pod(container(1, CRASHED), conditions=[READY]),
        GATED,
    ],
)
def test_a_pod_that_can_start_has_no_start_failure(state: Pod) -> None:
    """Also a pod whose container crashed a moment ago and runs again."""
    memory = StartFailures(Ticking())
    memory.observe(KEY, [pod(container(1, CRASHED))])
    assert memory.observe(KEY, [state]) == {}


@pytest.mark.parametrize("left", [[], [pod(uid="v")], [pod(container(0), uid="u")]])
def test_no_failures_are_kept_of_pods_that_are_gone_or_work(left: list[Pod]) -> None:
    """Nor of the pods of sets that are gone."""
    memory = StartFailures(Ticking())
    memory.observe(KEY, [pod(container(0, PULL))])
    memory.observe(KEY, left)
    assert memory._pods == {}
    memory.observe(KEY, [pod(container(0, PULL))])
    memory.forget(KEY)
    assert memory._pods == {}
