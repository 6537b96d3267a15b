"""Pods that fail as soon as they exist are replaced with a growing delay."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec
import pytest
from msgspec.structs import replace

from controller_manager.api.apps.v1 import STATEFUL_SETS
from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.client.rest.client import DeleteOptions
from controller_manager.controllers.apps.statefulset.failures import (
    FailedPods,
    StartFailures,
)
from controller_manager.controllers.apps.statefulset.ordering import (
    plan_sync,
    seconds_until_change,
)
from controller_manager.controllers.apps.statefulset.replicas import Replicas, Settings
from tests.clusters import EPOCH, Cluster, RecordingTransport, make_config
from tests.controllers.apps.failing_node import Node
from tests.controllers.apps.statefulset.builders import (
    UPDATING,
    pod,
    replicas_of,
    rolling,
    stateful_set,
    stateful_set_json,
)
from tests.controllers.apps.statefulset.test_ordering import steps
from tests.controllers.builders import template
from tests.controllers.user import settle

POLICIES = ["OrderedReady", "Parallel"]
AT_ONCE = DeleteOptions(grace_period_seconds=0)
FAILED = {"status": {"phase": "Failed"}}
NOW = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)


@pytest.fixture
def node(cluster: Cluster) -> Node:
    return Node(cluster)


@asynccontextmanager
async def running(
    cluster: Cluster, node: Node
) -> AsyncGenerator[RecordingTransport, None]:
    names = ("statefulset-controller", "taint-eviction-controller")
    config = make_config(controllers=names)
    async with cluster.manager(config) as recording, node.running():
        yield recording


async def make(node: Node, replicas: int = 1, **spec: Any) -> None:
    await node.user.create(STATEFUL_SETS, stateful_set_json(replicas=replicas, **spec))


async def edit(node: Node, **spec: Any) -> None:
    await node.user.patch(STATEFUL_SETS, "web", {"spec": spec})


async def delete(node: Node, name: str) -> None:
    await node.user.client.delete(PODS, "default", name, AT_ONCE)


async def phases(node: Node) -> dict[str, str]:
    return {each.metadata.name: each.status.phase for each in await node.user.pods()}


@pytest.mark.looptime
@pytest.mark.parametrize("deletes", [False, True])
@pytest.mark.parametrize("policy", POLICIES)
async def test_the_delay_doubles(
    cluster: Cluster, node: Node, policy: str, *, deletes: bool
) -> None:
    """The first failed pod is replaced at once; each name counts alone."""
    node.deletes = deletes
    async with running(cluster, node):
        await make(node, 3, podManagementPolicy=policy)
        await settle(140)
    expected = [0, 0, 1, 3, 7, 15, 31, 63, 127]
    others = [] if policy == "OrderedReady" else expected
    made = [node.of_pod(f"web-{each}") for each in range(3)]
    assert made == [expected, others, others]


@pytest.mark.looptime
async def test_a_failed_pod_stays_while_it_waits(cluster: Cluster, node: Node) -> None:
    """As daemon pods do: a user can see why it failed."""
    async with running(cluster, node):
        await make(node)
        await settle(20)
        assert await phases(node) == {"web-0": "Failed"}


def test_the_delay_ends_at_fifteen_minutes() -> None:
    """A pod after the other fails."""

    class Ticking:
        seconds = 0.0

        def now(self) -> datetime:
            return EPOCH

        def monotonic(self) -> float:
            return self.seconds

    clock, owner = Ticking(), stateful_set(1)
    failures, delays = FailedPods(clock, clock), []
    for number in range(14):
        failed = pod(0, uid=f"p{number}", phase="Failed", created="", ready=False)
        held = failures.observe(owner, [failed])
        delays.append(held.get("web-0"))
        clock.seconds += held.get("web-0", 0.0)
        assert failures.observe(owner, [failed]) == {}
    assert delays == [None, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900, 900]


@pytest.mark.looptime
async def test_a_repaired_template_is_rolled_out_at_once(
    cluster: Cluster, node: Node
) -> None:
    """A change of the set makes its pods due; the delay after that is the next one."""
    node.fails = lambda each: (each.metadata.labels or {}).get("bad") == "yes"
    bad, good = ({"metadata": {"labels": {"bad": each}}} for each in ("yes", "no"))
    async with running(cluster, node):
        await make(node, 2)
        await settle(20)
        node.created.clear()
        await edit(node, template=bad)
        await settle(40.5)
        assert node.of_pod("web-1") == [20, 20, 21, 23, 27, 35, 51]
        await edit(node, minReadySeconds=1)
        await settle(1)
        assert node.of_pod("web-1")[7:] == [60]
        await edit(node, template=good)
        await settle(1)
        assert await phases(node) == {"web-0": "Running", "web-1": "Running"}


@pytest.mark.looptime
async def test_a_ready_pod_ends_the_delay(cluster: Cluster, node: Node) -> None:
    """For its name: then a failure is the first one."""
    async with running(cluster, node):
        await make(node)
        await settle(20)
        node.fails = lambda _: False
        await settle(20)
        node.fails = lambda _: True
        node.created.clear()
        await delete(node, "web-0")
        await settle(10)
    assert node.of_pod("web-0") == [40, 40, 41, 43, 47]


@pytest.mark.looptime
async def test_a_pod_that_waits_for_an_image_ends_the_delay(
    cluster: Cluster, node: Node
) -> None:
    """After ten seconds: it has not failed at once."""
    async with cluster.manager(make_config(controllers=("statefulset-controller",))):
        async with node.running():
            await make(node)
            await settle(10)
        await settle(60)
        assert await phases(node) == {"web-0": "Pending"}
        for _ in range(3):
            name = "web-0"
            await node.user.client.patch(
                PODS, "default", name, FAILED, subresource="status"
            )
            await settle(0.5)
            assert await phases(node) == {"web-0": "Pending"}
            await settle(11)


@pytest.mark.looptime
async def test_a_pod_that_fails_later_is_replaced_at_once(
    cluster: Cluster, node: Node
) -> None:
    """More than ten seconds after its creation."""
    node.fails = lambda _: False
    async with running(cluster, node):
        await make(node)
        for _ in range(8):
            await settle(11)
            await node.user.client.patch(
                PODS, "default", "web-0", FAILED, subresource="status"
            )
            await settle(0.5)
    assert len(node.of_pod("web-0")) == 9


@pytest.mark.looptime
async def test_a_sync_that_fails_keeps_the_delay(cluster: Cluster, node: Node) -> None:
    """Another owner has the name of a pod, so each sync fails."""
    foreign = {"metadata": {"name": "web-1"}, "spec": template()["spec"]}
    node.fails = lambda each: each.metadata.name == "web-0"
    async with running(cluster, node):
        await node.user.create(PODS, foreign)
        await make(node, 2, podManagementPolicy="Parallel")
        await settle(140)
        assert await node.user.events("FailedCreate")
    assert node.of_pod("web-0") == [0, 0, 1, 3, 7, 15, 31, 63, 127]


def test_names_that_are_not_wanted_are_forgotten() -> None:
    """Neither those that were scaled away nor those of a set that is gone stay."""

    class Standing:
        def now(self) -> datetime:
            return EPOCH

        def monotonic(self) -> float:
            return 0.0

    failures = FailedPods(Standing(), Standing())
    failed = pod(2, phase="Failed", created="", ready=False)
    failures.observe(stateful_set(3), [failed])
    assert "default/web" in failures
    failures.observe(stateful_set(2), [failed])
    assert "default/web" not in failures
    failures.gone("default/web", failed)
    failures.forget("default/web")
    assert "default/web" not in failures


@pytest.mark.parametrize("present", [True, False])
def test_a_held_pod_is_neither_deleted_nor_created(*, present: bool) -> None:
    """The next sync comes when the first delay ends."""
    failed = (pod(1, phase="Failed", ready=False),) if present else ()
    seen = replicas_of(stateful_set(3), pod(0), *failed)
    seen = replace(seen, held={"web-1": 8.0, "web-2": 4.0})
    assert seconds_until_change(seen, NOW) == 4.0
    assert len(plan_sync(seen, NOW).reasons) == 1


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


def starting_pod(*containers: dict[str, Any], uid: str = "u", **status: Any) -> Pod:
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
UNSCHEDULABLE: Final = starting_pod(
    phase="Pending",
    conditions=[{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
)
GATED: Final = starting_pod(
    phase="Pending",
    conditions=[
        {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
    ],
)


@pytest.mark.parametrize(
    ("seen", "since"),
    [
        # The container waits all the time.
        (
            [
                (0, starting_pod(container(0, PULL))),
                (5000, starting_pod(container(0, PULL))),
            ],
            0,
        ),
        (
            [
                (0, starting_pod(container(0, PULL))),
                (9, starting_pod(container(0, "ErrImagePull"))),
            ],
            0,
        ),
        ([(0, UNSCHEDULABLE), (5000, UNSCHEDULABLE)], 0),
        # The failure begins after half an hour, while another container is starting.
        (
            [
                (0, starting_pod(container(0))),
                (1800, starting_pod(container(1, CRASHED))),
            ],
            1800,
        ),
        ([(0, GATED), (2400, UNSCHEDULABLE)], 2400),
        # The container crashes again and again.
        (
            [
                (0, starting_pod(container(1, CRASHED))),
                (300, starting_pod(container(2))),
                (310, starting_pod(container(2, CRASHED))),
                (910, starting_pod(container(3, CRASHED))),
            ],
            0,
        ),
        # The container ran for a long time before it crashed again, seen or not.
        (
            [
                (0, starting_pod(container(1, CRASHED))),
                (601, starting_pod(container(2, CRASHED))),
            ],
            601,
        ),
        (
            [
                (0, starting_pod(container(1, CRASHED))),
                (20, starting_pod(container(2))),
                (700, starting_pod(container(2))),
                (710, starting_pod(container(2, CRASHED))),
            ],
            710,
        ),
        # The container was ready in between, or its pod was.
        (
            [
                (0, starting_pod(container(1, CRASHED))),
                (20, starting_pod(container(2, ready=True))),
                (30, starting_pod(container(2, CRASHED))),
            ],
            30,
        ),
        (
            [
                (0, starting_pod(container(1, CRASHED))),
                (20, starting_pod(container(2), conditions=[READY])),
                (30, starting_pod(container(2, CRASHED))),
            ],
            30,
        ),
        # The kubelet could start the container; then it could not.
        (
            [
                (0, starting_pod(container(0, PULL))),
                (20, starting_pod(container(0, "ContainerCreating"))),
                (30, starting_pod(container(0, PULL))),
            ],
            30,
        ),
        # A pod of the same name is another pod.
        (
            [
                (0, starting_pod(container(0, PULL), uid="v")),
                (20, starting_pod(container(0, PULL))),
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
        starting_pod(container(2)),
        starting_pod(container(1, "ContainerCreating")),
        starting_pod(container(1, CRASHED), conditions=[READY]),
        GATED,
    ],
)
def test_a_pod_that_can_start_has_no_start_failure(state: Pod) -> None:
    """Also a pod whose container crashed a moment ago and runs again."""
    memory = StartFailures(Ticking())
    memory.observe(KEY, [starting_pod(container(1, CRASHED))])
    assert memory.observe(KEY, [state]) == {}


@pytest.mark.parametrize(
    "left", [[], [starting_pod(uid="v")], [starting_pod(container(0), uid="u")]]
)
def test_no_failures_are_kept_of_pods_that_are_gone_or_work(left: list[Pod]) -> None:
    """Nor of the pods of sets that are gone."""
    memory = StartFailures(Ticking())
    memory.observe(KEY, [starting_pod(container(0, PULL))])
    memory.observe(KEY, left)
    assert memory._pods == {}
    memory.observe(KEY, [starting_pod(container(0, PULL))])
    memory.forget(KEY)
    assert memory._pods == {}


TEN_MINUTES_AGO: Final = "2025-12-31T23:51:00Z"
HALF_AN_HOUR_AGO: Final = "2025-12-31T23:31:00Z"
A_SECOND_LESS: Final = "2025-12-31T23:51:01Z"
PULLS: Final = {"waiting": "ImagePullBackOff", "since": TEN_MINUTES_AGO}
"""The status of a pod whose image cannot be pulled."""


def old(ordinal: int, **fields: Any) -> Pod:
    return pod(ordinal, "web-old", **fields)


def starting(ordinal: int, revision: str = "web-old", **fields: Any) -> Pod:
    """Return a pod that has run without being ready for ten minutes."""
    return pod(ordinal, revision, ready=False, since=TEN_MINUTES_AGO, **fields)


def broken(ordinal: int, **fields: Any) -> Pod:
    """Return a pod of an update that was given up; its image cannot be pulled."""
    return pod(ordinal, "web-broken", **{**PULLS, **fields})


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
        ([old(0, **PULLS)], ["replace web-0"]),
        # The highest pod first, and no other pod while it terminates.
        ([old(0, **PULLS), old(1, **PULLS)], ["replace web-1"]),
        ([broken(0), old(1), broken(2)], ["replace web-2"]),
        ([broken(0), old(1), broken(2, terminating=True)], []),
        ([pod(0), old(1, **PULLS), old(2, **PULLS)], ["replace web-2"]),
        # The pod is only slow, and the sync waits for it.
        ([starting(0), old(1), broken(2)], []),
        ([old(0, **PULLS), starting(1), starting(2)], ["replace web-0"]),
        # After a power cut all pods start.
        ([starting(0), starting(1), starting(2)], []),
        ([starting(0, "web-broken"), old(1), old(2)], []),
        # The current template works: this pod may recover.
        ([old(0, **PULLS), old(1)], []),
        ([old(0), old(1, **PULLS), old(2)], []),
        # The new template may be broken, too.
        ([old(0, **PULLS), old(1, **PULLS), pod(2, ready=False)], []),
        # The sync always waits for these pods.
        ([pod(0, **PULLS)], []),
        ([broken(0, terminating=True)], []),
        ([pod(0, "", **PULLS)], []),
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
    assert seconds_until_change(seen(pod(0, **PULLS)), NOW) is None


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
    for pods in ([old(0), old(1), broken(2)], [old(0, **PULLS)]):
        stuck = replicas_of(subject, *pods, revisions=UPDATING, settings=waiting)
        assert steps(stuck) == []
