"""Cached pods share what they have in common."""

import asyncio
from typing import Any

import msgspec
import pytest

from controller_manager.api.core.v1 import Pod
from controller_manager.informers.transforms import PodTransform
from tests.clusters import Cluster
from tests.informers.test_informer import informer


def decoded(name: str, owner: str = "u1", ready: str = "True") -> Pod:
    pod: dict[str, Any] = {
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": {"app": "web", "tier": "back"},
            "ownerReferences": [{"kind": "ReplicaSet", "name": "w", "uid": owner}],
        },
        "spec": {"nodeName": "node-1"},
        "status": {
            "phase": "Running",
            "conditions": [
                {"type": "PodScheduled", "status": "True"},
                {"type": "Ready", "status": ready, "lastTransitionTime": name},
            ],
        },
    }
    return msgspec.json.decode(msgspec.json.encode(pod), type=Pod)


def test_equal_parts_become_the_same() -> None:
    """Labels, owners, and strings of which there are few."""
    share = PodTransform()
    one, two = decoded("a"), decoded("b")
    for pod in (one, two):
        share(pod)
    assert one.metadata.labels is two.metadata.labels
    assert one.metadata.owner_references is two.metadata.owner_references
    assert one.metadata.namespace is two.metadata.namespace
    assert one.spec.node_name is two.spec.node_name
    assert one.status.phase is two.status.phase


def test_what_differs_stays_as_it_is() -> None:
    """Of conditions, what controllers read."""
    share = PodTransform()
    one, two = decoded("a"), decoded("b", owner="u2", ready="False")
    for pod in (one, two):
        share(pod)
    assert [each.metadata.owner_references for each in (one, two)] == [
        decoded("x").metadata.owner_references,
        decoded("x", owner="u2").metadata.owner_references,
    ]
    assert msgspec.to_builtins(two.status.conditions) == (
        {"type": "Ready", "status": "False", "lastTransitionTime": "b"},
    )


@pytest.mark.looptime
async def test_a_long_list_leaves_others_their_turns(cluster: Cluster) -> None:
    """A thousand pods are not gone through in one go."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    pods = {f"default/{number}": decoded(str(number)) for number in range(1000)}
    async with informer(cluster) as subject:
        await subject.wait_for_sync()
        counting = asyncio.create_task(count())
        await subject.replaced(pods, "1000")
        counting.cancel()
        await asyncio.gather(counting, return_exceptions=True)
        assert len(subject.store) == 1000
    assert turns >= 9
