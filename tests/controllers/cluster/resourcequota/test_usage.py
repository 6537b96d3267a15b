"""Sources add up the usage of single objects."""

import asyncio
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller_manager.api.core.resources import ResourceQuotaSpec
from controller_manager.api.core.v1 import Pod
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import PartialMetadata, PartialObject
from controller_manager.control.quota.evaluators import count_evaluator, pod_evaluator
from controller_manager.control.quota.pods import pod_usage
from controller_manager.control.quota.resources import NOTHING, Amounts, added
from controller_manager.control.quota.scopes import pod_meets, requirements_of
from controller_manager.controllers.cluster.resourcequota.usage import (
    CachedObjects,
    Tally,
)
from controller_manager.informers.pods import PodTransform
from controller_manager.informers.store import Store
from controller_manager.runtime.worker import Turns

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
def test_pods_are_added_up_in_groups(
    bodies: list[JSON], scopes: tuple[str, ...]
) -> None:
    """The cache has dropped and shared parts of them; that changes nothing."""
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
    """Objects come and go, and the tally forgets empty namespaces."""
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
