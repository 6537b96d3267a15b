"""An object that breaks a part of a cache breaks nothing else."""

import asyncio
import io
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.meta import key_of, labels_of
from controller_manager.client.rest.client import Client
from controller_manager.informers.dispatch import Handler
from controller_manager.informers.informer import SharedInformer
from controller_manager.informers.store import Index, Store
from controller_manager.observability.logs import make_logger
from controller_manager.observability.metrics.client import InformerCollectors
from controller_manager.options.gates import FeatureGates
from tests.clusters import Cluster
from tests.informers import test_informer

pytestmark = pytest.mark.looptime(end=3600)

LABELS = {"group": "", "name": "test", "resource": "pods", "version": "v1"}


@dataclass
class Broken:
    informer: SharedInformer[Pod]
    transport: test_informer.Faulty
    registry: CollectorRegistry
    log: io.StringIO
    seen: test_informer.Seen = field(default_factory=test_informer.Seen)

    def errors(self, part: str) -> float | None:
        return self.registry.get_sample_value(
            "informer_unexpected_errors_total", {**LABELS, "part": part}
        )

    def labels(self) -> dict[str, str | None]:
        return {
            each.metadata.name: labels_of(each).get("x") for each in self.informer.store
        }

    def indexed(self, index: Index, value: str) -> list[str]:
        found = self.informer.store.by_index(index, value)
        return [each.metadata.name for each in found]


def fail_if_broken(obj: Pod) -> None:
    if labels_of(obj).get("x") == "broken":
        msg = f"{obj.metadata.name} is broken"
        raise KeyError(msg)


def fail_if_odd(obj: Pod) -> None:
    if labels_of(obj).get("x") == "odd":
        msg = f"{obj.metadata.name} is odd"
        raise KeyError(msg)


def _values(obj: Pod) -> Iterable[str]:
    """Yield a value before it fails, so that an index could be half-updated."""
    value = labels_of(obj).get("x", "")
    yield f"first-{value}"
    fail_if_broken(obj)
    yield f"second-{value}"


def _is_same(old: Pod, new: Pod) -> bool:
    return old.metadata.labels == new.metadata.labels


BY_X = Index("x", _values, _is_same)
BY_NAME = Index("name", lambda obj: (obj.metadata.name,), _is_same)


@asynccontextmanager
async def broken(
    cluster: Cluster,
    transform: Callable[[Pod], None] = lambda _: None,
    *,
    stream_lists: bool = True,
    resync_period: float = 0,
) -> AsyncGenerator[Broken, None]:
    registry, log = CollectorRegistry(), io.StringIO()
    transport = test_informer.Faulty(cluster)
    subject = SharedInformer(
        Client(transport, cluster.clock),
        PODS,
        gates=FeatureGates({"WatchListClient": stream_lists}),
        resync_period=resync_period,
        rng=cluster.rng,
        logger=make_logger(stream=log),
        metrics=InformerCollectors(registry, "test").informer("", "v1", "pods"),
        transform=transform,
    )
    for index in (BY_X, BY_NAME):
        subject.store.add_index(index)
    case = Broken(subject, transport, registry, log)
    subject.add_handler(case.seen.handler())
    running = asyncio.create_task(subject.run())
    waiting = asyncio.create_task(subject.wait_for_sync())
    try:
        await asyncio.wait((running, waiting), return_when=asyncio.FIRST_COMPLETED)
        yield case
        assert not running.done()
    finally:
        for task in (running, waiting):
            task.cancel()
        await asyncio.gather(running, waiting, return_exceptions=True)


@pytest.mark.parametrize("stream_lists", [True, False])
async def test_an_object_that_breaks_the_transform_is_cached_as_it_came(
    cluster: Cluster, stream_lists: bool
) -> None:
    """A transform only saves memory, and an absent pod would be created again."""
    await test_informer.add_pod(cluster, "a", x="odd")
    await test_informer.add_pod(cluster, "b", x="1")
    async with broken(cluster, fail_if_odd, stream_lists=stream_lists) as case:
        await test_informer.add_pod(cluster, "c", x="odd")
        await test_informer.add_pod(cluster, "d", x="1")
        await asyncio.sleep(1)
        assert case.labels() == {"a": "odd", "b": "1", "c": "odd", "d": "1"}
        assert case.errors("transform") == 2
        await test_informer.relabel(cluster, "a", "2")
        await asyncio.sleep(1)
        await test_informer.assert_equal_to_server(case.informer, cluster)
        assert case.errors("transform") == 2
    assert case.seen.calls == [*(("add", name) for name in "abcd"), ("update", "a")]
    assert "a is odd" in case.log.getvalue()


@pytest.mark.parametrize("stream_lists", [True, False])
async def test_an_object_that_breaks_an_index_is_cached_as_it_was_before(
    cluster: Cluster, stream_lists: bool
) -> None:
    """As if the watch were late: no index is updated half, and no handler is called."""
    await test_informer.add_pod(cluster, "a", x="1")
    await test_informer.add_pod(cluster, "b", x="broken")
    async with broken(cluster, stream_lists=stream_lists) as case:
        await test_informer.relabel(cluster, "a", "broken")
        await test_informer.add_pod(cluster, "c", x="1")
        await asyncio.sleep(1)
        assert case.labels() == {"a": "1", "c": "1"}
        for value in ("first-1", "second-1"):
            assert case.indexed(BY_X, value) == ["a", "c"]
        assert case.indexed(BY_X, "first-broken") == []
        assert [case.indexed(BY_NAME, each) for each in "abc"] == [["a"], [], ["c"]]
        page = await cluster.client.list_page(PODS)
        assert case.informer.has_reached(page.resource_version)
        assert case.errors("index") == 2
        await test_informer.relabel(cluster, "a", "2")
        await test_informer.relabel(cluster, "b", "2")
        await asyncio.sleep(1)
        await test_informer.assert_equal_to_server(case.informer, cluster)
        assert case.indexed(BY_X, "first-1") == ["c"]
        assert case.indexed(BY_X, "second-2") == ["a", "b"]
    assert case.seen.calls == [
        *(("add", name) for name in "ac"),
        ("update", "a"),
        ("add", "b"),
    ]


async def test_a_deletion_removes_a_broken_object(cluster: Cluster) -> None:
    await test_informer.add_pod(cluster, "a", x="1")
    async with broken(cluster) as case:
        await test_informer.relabel(cluster, "a", "broken")
        await test_informer.add_pod(cluster, "b", x="broken")
        for name in "ab":
            await cluster.client.delete(PODS, "default", name)
        await asyncio.sleep(100)
        assert case.labels() == {}
        assert case.indexed(BY_X, "second-1") == []
        assert case.indexed(BY_NAME, "a") == []
    assert case.seen.calls == [("add", "a"), ("delete", "a")]


@pytest.mark.parametrize("count", [4, 300], ids=["few", "many"])
async def test_broken_objects_spare_the_others(cluster: Cluster, count: int) -> None:
    """A former object of the same name is gone, though the new one is not cached."""

    def listed(*pods: Pod) -> dict[str, Pod]:
        return {key_of(each): each for each in pods}

    async with broken(cluster) as case:
        before = [labelled(f"pod-{n:03}", "1") for n in range(count)]
        await case.informer.replaced(listed(*before), "1000")
        case.seen.calls.clear()
        after = [labelled(f"pod-{n:03}", "2") for n in range(3, count)]
        broken_ones = [
            labelled("pod-000", "broken"),
            labelled("pod-001", "broken", uid="other"),
            labelled("pod-new", "broken"),
        ]
        await case.informer.replaced(listed(*broken_ones, *after), "2000")
        assert sorted(case.informer.store, key=key_of) == [before[0], *after]
        assert case.indexed(BY_X, "second-1") == ["pod-000"]
        assert len(case.indexed(BY_X, "second-2")) == count - 3
        assert case.errors("index") == 3
    assert sorted(case.seen.calls) == [
        ("delete", "pod-001"),
        ("delete", "pod-002"),
        *(("update", f"pod-{n:03}") for n in range(3, count)),
    ]


def labelled(name: str, x: str, uid: str = "u") -> Pod:
    metadata = replace(test_informer.pod(name).metadata, labels={"x": x}, uid=uid)
    return replace(test_informer.pod(name), metadata=metadata)


async def test_a_handler_that_fails_is_counted(cluster: Cluster) -> None:
    await test_informer.add_pod(cluster, "a", y="1")

    def fail(*_: Any) -> None:
        msg = "no such code"
        raise LookupError(msg)

    async with broken(cluster) as case:
        case.informer.add_handler(Handler(fail, fail, fail))
        late = test_informer.Seen()
        case.informer.add_handler(late.handler())
        await test_informer.add_pod(cluster, "b")
        await asyncio.sleep(1)
        assert case.errors("handler") == 2
    assert case.seen.calls == late.calls == [("add", "a"), ("add", "b")]


async def test_a_defect_of_the_reflector_is_a_new_list(cluster: Cluster) -> None:
    """For example an answer that the transport cannot handle."""
    async with broken(cluster) as case:

        def fail(_: bytes) -> bytes:
            msg = "no such code"
            raise LookupError(msg)

        case.transport.spoil = fail
        await test_informer.add_pod(cluster, "a")
        await asyncio.sleep(5)
        assert "LookupError" in (case.informer.problem() or "LookupError")
        case.transport.spoil = lambda chunk: chunk
        await asyncio.sleep(100)
        assert case.labels() == {"a": None}
        assert case.informer.problem() is None
        assert (case.errors("reflector") or 0) >= 1
    for metric in ("informer_watch_restarts_total", "informer_relists_total"):
        labels = {**LABELS, "cause": "defect"}
        assert (case.registry.get_sample_value(metric, labels) or 0) >= 1


async def test_many_broken_objects_do_not_flood_the_log(cluster: Cluster) -> None:
    """One template may break the transform for each of 100,000 pods."""
    for number in range(100):
        await test_informer.add_pod(cluster, f"pod-{number}", x="odd")
    async with broken(cluster, fail_if_odd) as case:
        assert case.errors("transform") == 100
    logged = case.log.getvalue()
    assert logged.count("Traceback") == 7
    assert logged.count("occurrences=64") == 1


async def test_a_store_that_an_index_function_fails_stays_as_it_was() -> None:
    """The exception goes to the caller, before any index has changed."""
    store: Store[Pod] = Store()
    store.add_index(BY_NAME)
    store.add_index(BY_X)
    store.put(labelled("a", "1"))
    for each in (labelled("a", "broken"), labelled("b", "broken")):
        with pytest.raises(KeyError, match="is broken"):
            store.put(each)
    assert list(store) == [labelled("a", "1")]
    assert store.by_index(BY_X, "second-1") == [labelled("a", "1")]
    assert store.by_index(BY_NAME, "b") == []


async def test_an_object_whose_index_function_changes_its_mind_can_be_removed() -> None:
    """It depends on something else than the object, and now it fails."""
    fails: list[bool] = []

    def values(obj: Pod) -> Iterable[str]:
        yield obj.metadata.name
        if fails:
            raise KeyError

    index = Index("changing", values, _is_same)
    store: Store[Pod] = Store()
    store.add_index(index)
    store.put(labelled("a", "1"))
    fails.append(True)
    assert store.remove("n/a") == labelled("a", "1")
    assert store.by_index(index, "a") == []
