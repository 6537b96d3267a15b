"""A store is replaced, and its metrics follow."""

import asyncio
from collections.abc import Awaitable

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from controller_manager.api.core.v1 import CONFIG_MAPS, PODS, Pod
from controller_manager.api.meta import KubeObject, PartialObject, Resource, key_of
from controller_manager.informers.dispatch import Handler
from controller_manager.informers.store import BY_CONTROLLER, Index
from controller_manager.observability.exposition import expose
from controller_manager.observability.metrics.client import InformerCollectors
from tests.clusters import Cluster, factory_of
from tests.controllers.builders import pod
from tests.informers.test_informer import Faulty, Seen, add_pod, informer

pytestmark = pytest.mark.looptime


def listed(*pods: Pod) -> dict[str, Pod]:
    return {key_of(each): each for each in pods}


def many(prefix: str, number: int = 350) -> dict[str, Pod]:
    return listed(*(pod(f"{prefix}-{index:03}") for index in range(number)))


async def turns_during(work: Awaitable[None]) -> list[None]:
    turns: list[None] = []
    task = asyncio.ensure_future(work)
    while not task.done():
        turns.append(None)
        await asyncio.sleep(0)
    await task
    return turns


@pytest.mark.parametrize("atomic", [True, False])
async def test_readers_of_a_store_that_is_replaced_see_old_or_new_objects(
    cluster: Cluster, atomic: bool
) -> None:
    """With AtomicFIFO all old or all new objects, without it also some of each."""
    old, new = many("a"), many("b")
    async with informer(cluster, atomic_fifo=atomic) as subject:
        await subject.wait_for_sync()
        await subject.replaced(old, "1000")
        seen: set[frozenset[str]] = set()
        versions: set[tuple[str, bool]] = set()
        work = asyncio.create_task(subject.replaced(new, "2000"))
        while not work.done():
            seen.add(frozenset(subject.store.keys()))
            versions.add((subject.resource_version, work.done()))
            await asyncio.sleep(0)
        assert frozenset(subject.store.keys()) == frozenset(new)
    assert (seen <= {frozenset(old), frozenset(new)}) is atomic
    assert versions == {("1000", False)}


@pytest.mark.parametrize("others", [0, 150], ids=["few", "many"])
@pytest.mark.parametrize("atomic", [True, False])
async def test_handlers_get_the_same_calls_with_and_without_the_gate(
    cluster: Cluster, atomic: bool, others: int
) -> None:
    same, changed = pod("same"), pod("changed")
    before = listed(pod("gone"), same, changed, pod("again", uid="1"))
    later = msgspec.structs.replace(
        changed, spec=msgspec.structs.replace(changed.spec, node_name="m")
    )
    after = listed(pod("new"), pod("same"), later, pod("again", uid="2"))
    after |= many("z", others)
    seen = Seen()
    async with informer(cluster, atomic_fifo=atomic) as subject:
        await subject.wait_for_sync()
        await subject.replaced(before, "1000")
        subject.add_handler(seen.handler())
        seen.calls.clear()
        await subject.replaced(after, "2000")
        assert {key_of(each): each for each in subject.store} == after
        # Unchanged objects are not held twice.
        assert subject.store.get(key_of(same)) is same
        assert subject.resource_version == "2000"
    assert seen.calls == [
        ("delete", "gone"),
        ("add", "new"),
        ("update", "changed"),
        ("delete", "again"),
        ("add", "again"),
        *(("add", f"z-{number:03}") for number in range(others)),
    ]


@pytest.mark.parametrize("atomic", [True, False])
async def test_a_long_list_takes_several_turns(cluster: Cluster, atomic: bool) -> None:
    async with informer(cluster, atomic_fifo=atomic) as subject:
        await subject.wait_for_sync()
        await subject.replaced(many("a", 1000), "1000")
        turns = await turns_during(subject.replaced(many("b", 1000), "2000"))
    assert len(turns) >= 9


@pytest.mark.parametrize("turn", range(24))
async def test_a_handler_added_meanwhile_gets_all(cluster: Cluster, turn: int) -> None:
    """It gets no object that was deleted before it was added."""
    old, new = many("a"), many("b")
    seen = Seen()
    async with informer(cluster) as subject:
        await subject.wait_for_sync()
        await subject.replaced(old, "1000")
        work = asyncio.create_task(subject.replaced(new, "2000"))
        for _ in range(turn):
            await asyncio.sleep(0)
        had_old = subject.store.get(next(iter(old))) is not None
        registration = subject.add_handler(seen.handler())
        await work
        await registration.wait_for_sync()
    told = set(seen.calls)
    assert len(told) == len(seen.calls)
    assert {name for what, name in told if what == "add"} >= {
        each.metadata.name for each in new.values()
    }
    assert had_old or told == {("add", each.metadata.name) for each in new.values()}


async def test_a_handler_removed_meanwhile_is_not_called(cluster: Cluster) -> None:
    """Not even for the remaining objects of the current list."""
    told: list[Pod] = []
    begun = asyncio.Event()

    def hear(pod: Pod) -> None:
        told.append(pod)
        begun.set()

    async with informer(cluster) as subject:
        await subject.wait_for_sync()
        registration = subject.add_handler(Handler(on_add=hear))
        work = asyncio.create_task(subject.replaced(many("a"), "1000"))
        await begun.wait()
        subject.remove_handler(registration)
        before = len(told)
        await work
    assert (len(told), before < 350) == (before, True)


async def test_an_index_added_meanwhile_is_filled(cluster: Cluster) -> None:
    """From the new objects, as it would be from the old."""

    def by_prefix(obj: KubeObject) -> list[str]:
        return [obj.metadata.name[0]]

    prefix = Index("prefix", by_prefix)

    async with informer(cluster) as subject:
        await subject.wait_for_sync()
        subject.store.add_index(BY_CONTROLLER)
        await subject.replaced(many("a"), "1000")
        work = asyncio.create_task(subject.replaced(many("b"), "2000"))
        # The first turns find the differences, the next ones fill a new store.
        for _ in range(9):
            await asyncio.sleep(0)
        assert subject.store.get(key_of(pod("a-000"))) is not None
        subject.store.add_index(prefix)
        assert len(subject.store.by_index(prefix, "a")) == 350
        await work
        assert subject.store.by_index(prefix, "a") == []
        assert len(subject.store.by_index(prefix, "b")) == 350
        assert subject.store.by_index(BY_CONTROLLER, "nobody") == []


LABELS = {"group": "", "name": "test", "resource": "pods", "version": "v1"}


async def test_restarts_and_relists_are_counted_by_cause(cluster: Cluster) -> None:
    registry = CollectorRegistry()
    transport = Faulty(cluster)
    metrics = InformerCollectors(registry, "test").informer("", "v1", "pods")

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, {**LABELS, **labels})

    def counts(name: str, *causes: str) -> list[float | None]:
        return [value(name, cause=cause) for cause in causes]

    causes = ("ended", "error", "timeout", "expired", "garbage")
    async with informer(cluster, transport, metrics=metrics) as subject:
        await subject.wait_for_sync()
        assert counts("informer_watch_restarts_total", *causes) == [0.0] * 5
        await asyncio.sleep(601)  # a watch is asked to last 10 minutes at most
        (ended, *others) = counts("informer_watch_restarts_total", *causes)
        assert ended in (1.0, 2.0)
        assert others == [0.0] * 4
        transport.spoil = lambda _: b'{"type":"ADDED","object":[1,2]}\n'
        await add_pod(cluster, "a")
        await asyncio.sleep(0.5)
        transport.spoil = lambda chunk: chunk
        await asyncio.sleep(10)
        await add_pod(cluster, "b")
        await asyncio.sleep(1)
        assert counts("informer_watch_restarts_total", "garbage") == [1.0]
        assert counts("informer_relists_total", "expired", "garbage") == [0.0, 1.0]
        assert value("informer_cached_objects") == 2
        assert value("informer_queued_items") == 0
        assert (value("informer_processing_latency_seconds_count") or 0) >= 2


async def test_the_version_of_the_store_follows_all(cluster: Cluster) -> None:
    """As upstream's gauge, of any cache."""
    registry = CollectorRegistry()
    factory = factory_of(cluster, registry, min_resync_period=0)
    pods = factory.informer(PODS)
    running = asyncio.create_task(factory.run())
    await factory.wait_for_sync()
    shown: list[float | None] = []
    versions: list[float] = []

    def look() -> None:
        name = "informer_store_resource_version"
        shown.append(registry.get_sample_value(name, LABELS))
        versions.append(float(pods.resource_version))

    look()
    await add_pod(cluster, "a")
    await asyncio.sleep(1)
    look()
    await cluster.client.delete(PODS, "default", "a")
    await asyncio.sleep(1)
    look()
    other = b'{"metadata":{"name":"c","namespace":"default"}}'
    await cluster.client.create_json(CONFIG_MAPS, "default", other)
    await asyncio.sleep(70)  # until the next bookmark
    look()
    assert shown == versions == sorted(set(versions))
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize(
    ("version", "shown"),
    [("7", 7), ("1234567890123456789", 567890123456789), ("12/34", 0), ("", 0)],
)
def test_a_version_is_shown_by_its_last_15_digits(version: str, shown: float) -> None:
    """A longer number would lose its last digits; no number is not shown."""
    registry = CollectorRegistry()
    metrics = InformerCollectors(registry, "test").informer("", "v1", "pods")
    metrics.at_version(version)
    name = "informer_store_resource_version"
    assert registry.get_sample_value(name, LABELS) == shown


async def test_the_series_of_a_removed_kind_go_away(cluster: Cluster) -> None:
    """All of them, once no controller watches it; a new watch starts at zero."""
    registry = CollectorRegistry()
    factory = factory_of(cluster, registry, min_resync_period=0)
    custom = Resource("", "v1", "pods", "Pod", PartialObject, metadata_only=True)
    factory.informer(CONFIG_MAPS)
    running = asyncio.create_task(factory.run())
    await factory.wait_for_sync()
    before = expose(registry)
    first, _ = factory.monitor(custom), factory.monitor(custom)
    await add_pod(cluster, "a")
    await first.wait_for_sync()
    factory.stop_monitor(custom)
    watched = expose(registry)
    assert watched.count(b'resource="pods"') == 33
    factory.stop_monitor(custom)
    await asyncio.sleep(5)
    assert expose(registry) == before
    await factory.monitor(custom).wait_for_sync()
    assert expose(registry).count(b'resource="pods"') == 33
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_stopped_monitor_leaves_shared_series(cluster: Cluster) -> None:
    """They are the same ones: a controller asked for the cache after the monitor."""
    registry = CollectorRegistry()
    factory = factory_of(cluster, registry, min_resync_period=0)
    factory.monitor(PODS)
    factory.informer(PODS)
    before = expose(registry)
    factory.stop_monitor(PODS)
    assert expose(registry) == before
