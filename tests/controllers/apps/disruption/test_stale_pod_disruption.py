"""The conditions DisruptionTarget of pods that were not deleted."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import msgspec
import pytest

from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.client import DeleteOptions
from controller_manager.client.rest.transport import Request
from controller_manager.controllers.apps.disruption.stale_pods import (
    StalePodDisruptions,
    stale_since,
)
from controller_manager.runtime.context import ControllerContext
from tests.clusters import Cluster
from tests.controllers.apps.disruption.cases import at, pod_json
from tests.controllers.apps.disruption.fixtures import running
from tests.controllers.user import settle
from tests.meddler import Meddler

TARGET = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "EvictionByEvictionAPI",
    "message": "Eviction API: evicting",
}


@pytest.mark.parametrize(
    ("condition", "since"),
    [
        ({"lastTransitionTime": at(0)}, at(120)),
        ({"lastTransitionTime": at(-999)}, at(-879)),
        ({"lastTransitionTime": None}, "0001-01-01T00:00:00Z"),
        ({"lastTransitionTime": at(-999), "status": "False"}, None),
        ({"lastTransitionTime": at(-999), "type": "PodScheduled"}, None),
        ({"lastTransitionTime": at(-999), "reason": "TerminationByKubelet"}, None),
    ],
)
def test_a_condition_is_stale_after_two_minutes(
    condition: JSON, since: str | None
) -> None:
    """Unless it is the kubelet's, which may take any time."""
    assert _stale_since(_pod({**TARGET, **condition})) == since


@pytest.mark.parametrize(
    ("phase", "metadata", "is_stale"),
    [
        ("Running", {}, True),
        ("Pending", {}, True),
        ("Succeeded", {}, False),
        ("Failed", {}, False),
        ("Running", {"deletionTimestamp": at(-1)}, False),
    ],
)
def test_a_pod_that_ends_keeps_its_condition(
    phase: str, metadata: JSON, *, is_stale: bool
) -> None:
    """The disruption has taken place."""
    condition = {**TARGET, "lastTransitionTime": at(-999)}
    found = _stale_since(_pod(condition, phase, **metadata))
    assert found == (at(-879) if is_stale else None)


def _stale_since(pod: Pod) -> str | None:
    since = stale_since(pod)
    return None if since is None else since.strftime("%04Y-%m-%dT%H:%M:%SZ")


def _pod(condition: JSON, phase: str = "Running", **metadata: Any) -> Pod:
    body = pod_json()
    body["metadata"] |= metadata
    body["status"] = {"phase": phase, "conditions": [condition]}
    return msgspec.convert(body, Pod)


@pytest.mark.looptime
async def test_a_stale_condition_is_reset(cluster: Cluster) -> None:
    """It loses its reason and its message; other conditions stay as they are."""
    async with running(cluster) as (guard, recording):
        await guard.add_pods("a")
        began = "2026-01-01T00:00:00Z"
        await guard.set_condition("a", **TARGET, lastTransitionTime=began)
        before = await guard.conditions_of("a")
        await settle(118)
        assert await guard.conditions_of("a") == before
        await settle(10)
        found = await guard.conditions_of("a")
        assert found["DisruptionTarget"] == {
            "type": "DisruptionTarget",
            "status": "False",
            "lastProbeTime": None,
            "lastTransitionTime": "2026-01-01T00:02:00Z",
            "observedGeneration": 1,
        }
        assert found["Ready"] == before["Ready"]
    assert [(each.method, each.status) for each in recording.writes] == [("PATCH", 200)]


@pytest.mark.looptime
async def test_a_condition_that_was_set_before_the_start_is_reset(
    cluster: Cluster,
) -> None:
    """The two minutes count from the condition, not from the start."""
    async with running(cluster) as (guard, _):
        await guard.add_pods("a")
        began = "2026-01-01T00:00:00Z"
        await guard.set_condition("a", **TARGET, lastTransitionTime=began)
    await settle(200)
    async with running(cluster) as (guard, _):
        await settle(1)
        found = (await guard.conditions_of("a"))["DisruptionTarget"]
        assert (found["status"], found.get("reason")) == ("False", None)


@pytest.mark.looptime
async def test_a_pod_that_is_evicted_again_keeps_its_condition(
    cluster: Cluster,
) -> None:
    """The pod has changed since it was cached; the new condition is not stale."""
    meddler = Meddler(cluster.transport)
    async with running(cluster, meddler) as (guard, recording):
        await guard.add_pods("a")

        async def set_again(request: Request) -> None:
            if request.method == "PATCH" and "/pods/" in request.path:
                meddler.meddle = None
                again = "2026-01-01T00:02:01Z"
                await guard.set_condition("a", **TARGET, lastTransitionTime=again)

        meddler.meddle = set_again
        began = "2026-01-01T00:00:01Z"
        await guard.set_condition("a", **TARGET, lastTransitionTime=began)
        await settle(125)
        found = (await guard.conditions_of("a"))["DisruptionTarget"]
        assert (found["status"], found["reason"]) == ("True", "EvictionByEvictionAPI")
        assert [each.status for each in recording.writes] == [409]
        await settle(120)
        found = (await guard.conditions_of("a"))["DisruptionTarget"]
        assert found["status"] == "False"


@pytest.mark.looptime
async def test_a_pod_that_is_gone_in_time_causes_no_write(cluster: Cluster) -> None:
    """Nothing is written, and nothing is tried again."""
    async with running(cluster) as (guard, recording):
        await guard.add_pods("a")
        began = "2026-01-01T00:00:01Z"
        await guard.set_condition("a", **TARGET, lastTransitionTime=began)
        await settle(60)
        await guard.client.delete(PODS, "default", "a")
        await settle(300)
    assert recording.writes == []


@pytest.mark.looptime
async def test_no_key_is_kept_of_a_deleted_pod(cluster: Cluster) -> None:
    """A clock that is ahead may have written a time that is far away."""
    with counted_delays() as delayed:
        async with running(cluster) as (guard, _):
            await guard.add_pods("a")
            began = "2999-01-01T00:00:00Z"
            await guard.set_condition("a", **TARGET, lastTransitionTime=began)
            await settle(1)
            before = delayed()
            now = DeleteOptions(grace_period_seconds=0)
            await cluster.client.delete(PODS, "default", "a", now)
            await settle(1)
            after = delayed()
    assert (before, after) == (1, 0)


@contextmanager
def counted_delays() -> Iterator[Callable[[], int]]:
    """Yield a function that counts the keys that wait in the controller."""
    made: list[StalePodDisruptions] = []
    init = StalePodDisruptions.__init__

    def remember(self: StalePodDisruptions, context: ControllerContext) -> None:
        made.append(self)
        init(self, context)

    with mock.patch.object(StalePodDisruptions, "__init__", remember):
        yield lambda: sum(each._queue.delayed for each in made)
