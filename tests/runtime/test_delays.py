"""Keys that are added some time after a change, so that many changes cause one sync."""

import asyncio
from collections.abc import Sequence

import msgspec
import pytest
from msgspec.structs import replace

from controller_manager.api.apps.v1 import REPLICASETS, ReplicaSet
from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.informers.dispatch import Handler
from controller_manager.informers.store import Lister, Store
from controller_manager.runtime.reconciler import OwnedHandler, handler_for
from controller_manager.runtime.watches import For, Owns
from controller_manager.workqueue.queue import WorkQueue
from tests.clusters import Cluster

pytestmark = pytest.mark.looptime


def owner(generation: int = 1) -> ReplicaSet:
    metadata = {
        "name": "rs",
        "namespace": "default",
        "uid": "u",
        "generation": generation,
    }
    return msgspec.convert({"metadata": metadata}, ReplicaSet)


def owned(version: str) -> Pod:
    reference = {"kind": "ReplicaSet", "name": "rs", "uid": "u", "controller": True}
    metadata = {
        "name": "p",
        "namespace": "default",
        "resourceVersion": version,
        "ownerReferences": [reference],
    }
    return msgspec.convert({"metadata": metadata}, Pod)


def ignore(key: str, obj: Pod) -> None:
    del key, obj


def taken(queue: WorkQueue) -> Sequence[str]:
    found = []
    while (key := queue.take()) is not None:
        queue.done(key)
        found.append(key)
    return found


def handler_of_owned(queue: WorkQueue, delay: float) -> Handler[Pod]:
    owners: Store[ReplicaSet] = Store()
    owners.put(owner())
    lister = Lister(owners, REPLICASETS.kind)
    return OwnedHandler[Pod](Owns(PODS, delay), lister, queue, ignore, ignore).handler()


async def test_changes_within_the_delay_cause_one_sync(cluster: Cluster) -> None:
    queue = WorkQueue(cluster.clock)
    handler = handler_of_owned(queue, 1.0)
    handler.on_add(owned("1"))
    await asyncio.sleep(0.6)
    handler.on_update(owned("1"), owned("2"))
    assert taken(queue) == []
    await asyncio.sleep(0.5)
    assert taken(queue) == ["default/rs"]
    await asyncio.sleep(10)
    assert taken(queue) == []
    handler.on_delete(owned("2"))
    assert taken(queue) == []
    await asyncio.sleep(1)
    assert taken(queue) == ["default/rs"]


async def test_without_a_delay_a_key_is_added_at_once(cluster: Cluster) -> None:
    queue = WorkQueue(cluster.clock)
    handler_of_owned(queue, 0.0).on_add(owned("1"))
    assert taken(queue) == ["default/rs"]


async def test_a_new_dependent_need_not_cause_a_sync(cluster: Cluster) -> None:
    """Its later changes do, and so does one that is being deleted already."""
    queue, owners = WorkQueue(cluster.clock), Store[ReplicaSet]()
    owners.put(owner())
    lister = Lister(owners, REPLICASETS.kind)
    watch = Owns(PODS, when_added=False)
    owned_handler = OwnedHandler[Pod](watch, lister, queue, ignore, ignore)
    handler = owned_handler.handler()
    handler.on_add(owned("1"))
    assert taken(queue) == []
    handler.on_update(owned("1"), owned("2"))
    assert taken(queue) == ["default/rs"]
    leaving = replace(owned("3").metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    handler.on_add(replace(owned("3"), metadata=leaving))
    assert taken(queue) == ["default/rs"]


async def test_an_update_may_have_a_delay_of_its_own(cluster: Cluster) -> None:
    """It depends on the changed fields; additions and deletions do not wait."""
    queue = WorkQueue(cluster.clock)

    def delay(reconciler: object, old: ReplicaSet, new: ReplicaSet) -> float:
        assert reconciler is queue
        return 1.0 if old.metadata.generation == new.metadata.generation else 0.0

    watch = For(REPLICASETS, update_delay=delay)
    handler = handler_for(watch, queue, queue, lambda _: None)
    handler.on_add(owner())
    assert taken(queue) == ["default/rs"]
    handler.on_update(owner(), owner())
    assert taken(queue) == []
    await asyncio.sleep(1)
    assert taken(queue) == ["default/rs"]
    handler.on_update(owner(), owner(2))
    assert taken(queue) == ["default/rs"]
    handler.on_delete(owner(2))
    assert taken(queue) == ["default/rs"]


async def test_an_update_a_predicate_rejects_is_left_out(cluster: Cluster) -> None:
    queue = WorkQueue(cluster.clock)

    def no_delay(reconciler: object, old: ReplicaSet, new: ReplicaSet) -> float:
        del reconciler, old, new
        return 0.0

    watch = For(REPLICASETS, when=lambda _: False, update_delay=no_delay)
    handler_for(watch, queue, queue, lambda _: None).on_update(owner(), owner(2))
    assert taken(queue) == []
