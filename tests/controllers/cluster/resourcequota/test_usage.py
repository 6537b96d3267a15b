"""Sources add up the usage of single objects."""

import asyncio
from datetime import UTC, datetime
from unittest import mock

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from controller_manager.api.core.resources import (
    ResourceQuota,
    ResourceQuotaSpec,
    ResourceQuotaStatus,
)
from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import ObjectMeta, PartialMetadata, PartialObject
from controller_manager.api.quantity import QuantityError
from controller_manager.control.quota.evaluators import count_evaluator, pod_evaluator
from controller_manager.control.quota.pods import pod_usage
from controller_manager.control.quota.resources import (
    NOTHING,
    Amounts,
    added,
    amounts,
    printed,
)
from controller_manager.control.quota.scopes import pod_meets, requirements_of
from controller_manager.controllers.cluster.resourcequota.usage import (
    CachedObjects,
    Tally,
    is_settled,
    limits_differ,
    status_to_write,
)
from controller_manager.informers.pods import PodTransform
from controller_manager.informers.store import Store
from controller_manager.runtime.worker import Turns

from .counting import Quotas, controller_of

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)

_AMOUNTS = st.sampled_from(["100m", "0.5", "1", "2"])
_RESOURCES = st.fixed_dictionaries(
    {}, optional={"cpu": _AMOUNTS, "memory": _AMOUNTS, "example.com/gpu": _AMOUNTS}
)
_REQUIREMENTS = st.fixed_dictionaries({"requests": _RESOURCES, "limits": _RESOURCES})


@st.composite
def pods(draw: st.DrawFn) -> JSON:
    """Draw a pod; few pods differ in their usage, as in a cluster."""
    names = draw(st.sampled_from([["a"], ["a", "b"]]))
    resources = draw(_REQUIREMENTS)
    containers = [{"name": name, "resources": resources} for name in names]
    spec: JSON = {"containers": containers}
    if draw(st.booleans()):
        policy = draw(st.sampled_from([None, "Always"]))
        init = {"name": "i", "restartPolicy": policy, "resources": draw(_REQUIREMENTS)}
        spec["initContainers"] = [init]
    if draw(st.integers(0, 4)) == 0:
        spec["resources"] = draw(_REQUIREMENTS)
    if draw(st.integers(0, 4)) == 0:
        spec["overhead"] = draw(_RESOURCES)
    if draw(st.booleans()):
        spec["activeDeadlineSeconds"] = 60
    in_use = draw(st.sampled_from([resources, resources, draw(_REQUIREMENTS)]))
    status: JSON = {
        "phase": draw(st.sampled_from(["Running", "Running", "Failed"])),
        "containerStatuses": [
            {"name": name, "resources": draw(st.sampled_from([resources, in_use]))}
            for name in names
        ],
    }
    if draw(st.booleans()):
        allocated = draw(st.sampled_from([resources, draw(_REQUIREMENTS)]))
        status["containerStatuses"][0]["allocatedResources"] = allocated["requests"]
    if reason := draw(st.sampled_from(["", "", "Deferred", "Infeasible"])):
        condition = {"type": "PodResizePending", "status": "True", "reason": reason}
        status["conditions"] = [condition]
    return {"spec": spec, "status": status}


def _made(bodies: list[JSON]) -> list[Pod]:
    return [
        msgspec.convert({"metadata": {"name": str(i), "namespace": "n"}, **body}, Pod)
        for i, body in enumerate(bodies)
    ]


@pytest.mark.slow
@given(st.lists(pods(), max_size=12), st.sampled_from([(), ("Terminating",)]))
def test_pods_are_added_in_groups(bodies: list[JSON], scopes: tuple[str, ...]) -> None:
    requirements = requirements_of(ResourceQuotaSpec(scopes=scopes))
    expected: Amounts = NOTHING
    for pod in _made(bodies):
        if all(pod_meets(each, pod, pod_level=True) for each in requirements):
            expected = added(expected, pod_usage(pod, NOW, pod_level=True))
    store: Store[Pod] = Store()
    transform = PodTransform()
    for pod in _made(bodies):
        transform(pod)
        store.put(pod)

    async def total() -> Amounts:
        source = CachedObjects(pod_evaluator(pod_level=True), store, Turns())
        return await source.total("n", requirements, NOW)

    assert asyncio.run(total()) == expected


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 5))))
def test_a_tally_counts_existing_objects(steps: list[tuple[str, int]]) -> None:
    tally = Tally(count_evaluator("", "secrets"), ("secrets",))
    present: set[tuple[str, int]] = set()
    for namespace, number in steps:
        metadata = PartialMetadata(name=str(number), namespace=namespace)
        obj = PartialObject(metadata=metadata)
        if (namespace, number) in present:
            present.remove((namespace, number))
            tally.gone(obj)
        else:
            present.add((namespace, number))
            tally.seen(obj)
    for namespace in "ab":
        expected = sum(1 for each, _ in present if each == namespace)
        found = asyncio.run(tally.total(namespace, (), NOW))
        assert found["secrets"].value == expected
    assert tally._numbers.keys() == {namespace for namespace, _ in present}


Texts = dict[str, str]


def quota(
    spec: Texts, hard: Texts | None = None, used: Texts | None = None
) -> ResourceQuota:
    return ResourceQuota(
        metadata=ObjectMeta(name="q", namespace="default"),
        spec=ResourceQuotaSpec(hard=spec),
        status=ResourceQuotaStatus(hard=hard, used=used),
    )


@pytest.mark.parametrize(
    ("subject", "usage", "expected"),
    [
        # New, and counted for the first time.
        (quota({"cpu": "3"}), {"cpu": "200m"}, ({"cpu": "3"}, {"cpu": "200m"})),
        # TestSyncResourceQuotaSpecChange.
        (
            quota({"cpu": "4"}, {"cpu": "3"}, {"cpu": "0"}),
            {"cpu": "0"},
            ({"cpu": "4"}, {"cpu": "0"}),
        ),
        # TestSyncResourceQuotaSpecHardChange: a limit was dropped.
        (
            quota({"cpu": "4"}, {"cpu": "3", "a": "1Gi"}, {"cpu": "0", "a": "0"}),
            {"cpu": "0"},
            ({"cpu": "4"}, {"cpu": "0"}),
        ),
        # TestSyncResourceQuotaNoChange.
        (quota({"cpu": "4"}, {"cpu": "4"}, {"cpu": "0"}), {"cpu": "0"}, None),
        # The same amounts in other words.
        (quota({"cpu": "4000m"}, {"cpu": "4"}, {"cpu": "1"}), {"cpu": "1000m"}, None),
        # A resource that could not be counted keeps its usage.
        (
            quota({"a": "4", "b": "4"}, {"a": "4", "b": "4"}, {"a": "1", "b": "2"}),
            {"b": "3"},
            ({"a": "4", "b": "4"}, {"a": "1", "b": "3"}),
        ),
        # A resource that no source counts has no usage.
        (quota({"a": "4"}, {"a": "4"}, None), {}, None),
        (quota({"a": "4"}), {}, ({"a": "4"}, {})),
        (quota({}), {}, None),
    ],
)
def test_a_status_is_written_if_it_differs(
    subject: ResourceQuota, usage: Texts, expected: tuple[Texts, Texts] | None
) -> None:
    """Upstream's cases of TestSyncResourceQuota, and others."""
    status = status_to_write(subject, amounts(usage))
    assert (None if status is None else (status.hard, status.used)) == expected


def test_an_invalid_quantity_is_not_counted() -> None:
    with pytest.raises(QuantityError):
        status_to_write(quota({"cpu": "x"}), {})


def test_limits_are_compared_as_amounts() -> None:
    assert not limits_differ(quota({"cpu": "1"}), quota({"cpu": "1000m"}))
    assert limits_differ(quota({"cpu": "1"}), quota({"cpu": "2"}))
    assert is_settled(quota({"cpu": "1"}, {"cpu": "1000m"}))
    assert not is_settled(quota({"cpu": "1"}))


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("subject", "comes_first"),
    [
        (quota({"cpu": "4"}), True),
        (quota({"cpu": "4"}, {"cpu": "4"}), True),
        (quota({"cpu": "4"}, {"cpu": "6"}, {"cpu": "0"}), True),
        (quota({"a.b/c": "4"}, {"a.b/c": "4"}), False),
        (quota({"cpu": "4"}, {"cpu": "4"}, {"cpu": "0"}), False),
    ],
)
async def test_a_quota_whose_status_lacks_something_comes_first(
    cluster: Quotas, subject: ResourceQuota, comes_first: bool
) -> None:
    async with controller_of(cluster) as controller:
        await asyncio.sleep(1)
        controller._enqueue(subject)
        assert (len(controller.priority), len(controller.primary)) == (
            (1, 0) if comes_first else (0, 1)
        )


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


async def test_pods_with_the_same_resources_are_added_up_together() -> None:
    """The usage of one pod of a group is computed, also as a kubelet reports them."""
    running = [pod(f"p{number}", "web") for number in range(3000)]
    ended = [pod(f"e{number}", "web", phase="Failed") for number in range(500)]
    counted = Counted(*running, *ended)
    expected = {"count/pods": "3500", "pods": "3k", "cpu": "300", "requests.cpu": "300"}
    assert (await counted.total(), counted.computed) == (expected, 2)
    resized = reported(pod("r", "web"), cpu="1100m")
    counted = Counted(*(reported(each, cpu="100m") for each in running), resized)
    assert await counted.total() == {
        "count/pods": "3001",
        "pods": "3001",
        **dict.fromkeys(("cpu", "requests.cpu"), "301100m"),
        **dict.fromkeys(("memory", "requests.memory"), "3001Mi"),
    }
    assert counted.computed == 2


@pytest.mark.looptime
async def test_a_heartbeat_of_a_pod_calls_for_no_recount(cluster: Quotas) -> None:
    cluster.add_quota({"pods": "5"})
    cluster.add_pod("a")
    async with controller_of(cluster) as controller:
        await asyncio.sleep(40)
        recount = controller._sync
        with mock.patch.object(controller, "_sync", wraps=recount) as recounted:
            ready = {"type": "Ready", "status": "True"}
            status = {"phase": "Running", "conditions": [ready]}
            cluster.edit(PODS, "a", status=status, metadata={"labels": {"a": "b"}})
            await asyncio.sleep(2)
            assert recounted.await_count == 0
            cluster.edit(PODS, "a", status={"phase": "Failed"})
            await asyncio.sleep(2)
            assert recounted.await_count == 1
