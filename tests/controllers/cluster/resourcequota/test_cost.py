"""The cost of a recount; other work goes on meanwhile."""

import asyncio
import itertools
from datetime import UTC, datetime
from unittest import mock

import msgspec
import pytest
from msgspec.structs import replace

from controller_manager.api.core.v1 import Pod
from controller_manager.control.quota.evaluators import pod_evaluator
from controller_manager.control.quota.pods import pod_usage
from controller_manager.control.quota.resources import Amounts, printed
from controller_manager.controllers.cluster.resourcequota.usage import CachedObjects
from controller_manager.informers.pods import PodTransform
from controller_manager.informers.store import Store
from controller_manager.runtime.worker import Turns
from tests.clusters import Cluster
from tests.controllers.cluster.resourcequota.counting import User, controller_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def pod(
    name: str,
    owner: str = "",
    namespace: str = "a",
    phase: str = "Running",
    container: str = "c",
) -> Pod:
    reference = {"kind": "ReplicaSet", "uid": owner, "controller": True}
    resources = {"requests": {"cpu": "100m"}}
    status = {"name": container, "resources": resources}
    body = {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "ownerReferences": [reference] if owner else [],
        },
        "spec": {"containers": [{"name": container, "resources": resources}]},
        "status": {"phase": phase, "containerStatuses": [status]},
    }
    return msgspec.convert(body, Pod)


class Counted:
    """A source of pods, and how often the usage of one was computed."""

    def __init__(self, *pods: Pod, turns: Turns | None = None) -> None:
        self.computed = 0
        store: Store[Pod] = Store()
        evaluator = replace(pod_evaluator(pod_level=True), usage=self._usage)
        self.source = CachedObjects(evaluator, store, turns or Turns())
        transform = PodTransform()
        for each in pods:
            transform(each)
            store.put(each)

    def _usage(self, subject: Pod, now: datetime) -> Amounts:
        self.computed += 1
        return pod_usage(subject, now, pod_level=True)

    async def total(self, namespace: str = "a") -> dict[str, str]:
        return printed(await self.source.total(namespace, (), NOW))


def reported(subject: Pod, **allocated: str) -> Pod:
    """Return a pod as a kubelet reports it, with the resources of its sandbox."""
    statuses = subject.status.container_statuses or ()
    told = tuple(replace(each, allocated_resources=allocated) for each in statuses)
    spec = replace(subject.spec, overhead={"memory": "1Mi"})
    status = replace(subject.status, container_statuses=told)
    return replace(subject, spec=spec, status=status)


async def test_pods_that_a_kubelet_has_reported_are_added_up_together() -> None:
    """A pod that is being resized is charged for its allocated resources."""
    usual = [reported(pod(f"p{number}", "web"), cpu="100m") for number in range(3000)]
    resized = reported(pod("r", "web"), cpu="1100m")
    counted = Counted(*usual, resized)
    assert await counted.total() == {
        "count/pods": "3001",
        "pods": "3001",
        "cpu": "301100m",
        "requests.cpu": "301100m",
        "memory": "3001Mi",
        "requests.memory": "3001Mi",
    }
    assert counted.computed == 2


async def test_pods_with_the_same_containers_are_added_up_together() -> None:
    """Their usage is computed once; those that have ended are another group."""
    running = [pod(f"p{number}", "web") for number in range(3000)]
    ended = [pod(f"e{number}", "web", phase="Failed") for number in range(500)]
    counted = Counted(*running, *ended)
    assert await counted.total() == {
        "count/pods": "3500",
        "pods": "3k",
        "cpu": "300",
        "requests.cpu": "300",
    }
    assert counted.computed == 2


async def test_pods_of_other_namespaces_are_not_looked_at() -> None:
    """The cost does not grow with them."""
    others = [pod(f"p{number}", namespace="b") for number in range(2000)]
    counted = Counted(pod("p"), *others)
    assert (await counted.total())["pods"] == "1"
    assert counted.computed == 1


@pytest.mark.parametrize("number", [500, 1000, 2000])
async def test_the_cost_grows_as_the_pods_do(number: int) -> None:
    """Pods that are all different are looked at one by one, each once."""
    different = (pod(f"p{each}", container=f"c{each}") for each in range(number))
    counted = Counted(*different)
    assert (await counted.total())["count/pods"] in (str(number), f"{number // 1000}k")
    assert counted.computed == number


async def test_other_work_goes_on_during_a_long_recount() -> None:
    """A recount of a thousand pods that takes a second is done in many turns."""
    ticks = itertools.count()
    turns = Turns(clock=lambda: next(ticks) * 0.004)
    pods = (pod(f"p{each}") for each in range(1000))
    counted = Counted(*pods, turns=turns)
    recount = asyncio.create_task(counted.total())
    rounds = 0
    while not recount.done():
        await asyncio.sleep(0)
        rounds += 1
    assert recount.result()["pods"] == "1k"
    assert rounds >= 10


@pytest.mark.looptime
async def test_a_heartbeat_of_a_pod_calls_for_no_recount(cluster: Cluster) -> None:
    """Nor do its labels; its end does."""
    user = User(cluster)
    user.add_quota({"pods": "5"})
    user.add_pod("a")
    async with controller_of(cluster) as controller:
        await asyncio.sleep(40)
        recount = controller._sync
        with mock.patch.object(controller, "_sync", wraps=recount) as recounted:
            ready = {"type": "Ready", "status": "True"}
            status = {"phase": "Running", "conditions": [ready]}
            await user.patch("pods", "a", {"status": status}, "status")
            await user.patch("pods", "a", {"metadata": {"labels": {"a": "b"}}})
            await asyncio.sleep(2)
            assert recounted.await_count == 0
            await user.patch("pods", "a", {"status": {"phase": "Failed"}}, "status")
            await asyncio.sleep(2)
            assert recounted.await_count == 1
