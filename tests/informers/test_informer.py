"""A shared informer stays equal to the server, however its watch fails."""

import asyncio
import io
import itertools
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import msgspec
import pytest

from controller_manager.api.core.v1 import CONFIG_MAPS, NODES, PODS, Pod, PodMeta
from controller_manager.api.meta import key_of, labels_of
from controller_manager.client.rest.client import Client, PatchType
from controller_manager.client.rest.errors import TransportError
from controller_manager.client.rest.serializer import Modified
from controller_manager.client.rest.transport import (
    Request,
    Response,
    Stream,
    Transport,
)
from controller_manager.devcluster.inmemory import InMemoryTransport
from controller_manager.informers.dispatch import Handler
from controller_manager.informers.informer import SharedInformer
from controller_manager.informers.reflector import State
from controller_manager.informers.store import BY_CONTROLLER, Store
from controller_manager.observability.logs import make_logger, silent_logger
from controller_manager.options.gates import FeatureGates
from tests.clusters import TOKEN, Cluster, factory_of, informer_metrics

pytestmark = pytest.mark.looptime


class Faulty:
    host = "faulty"

    def __init__(self, cluster: Cluster) -> None:
        self.inner = InMemoryTransport(cluster.server, TOKEN)
        self.requests: list[Request] = []
        self.refuse: Callable[[Request], Response | None] = lambda _: None
        self.spoil: Callable[[bytes], bytes | None] = lambda chunk: chunk
        self.idle_limit: float | None = None

    async def request(self, request: Request) -> Response:
        self.requests.append(request)
        return self.refuse(request) or await self.inner.request(request)

    async def stream(self, request: Request) -> Stream:
        self.requests.append(request)
        refusal = self.refuse(request)
        if refusal is not None:
            return Spoiled(await self.inner.stream(request), self, refusal)
        return Spoiled(await self.inner.stream(request), self, None)

    async def close(self) -> None:
        pass


class Spoiled:
    def __init__(self, inner: Stream, faulty: Faulty, refusal: Response | None) -> None:
        self.inner = inner
        self.faulty = faulty
        self.refusal = refusal
        self.status = refusal.status if refusal else inner.status
        self.headers = refusal.headers if refusal else inner.headers

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        if self.refusal is not None:
            yield self.refusal.body
            return
        async for chunk in self._chunks_until_idle():
            spoilt = self.faulty.spoil(chunk)
            if spoilt is None:
                msg = "connection reset"
                raise TransportError(msg)
            yield spoilt

    async def _chunks_until_idle(self) -> AsyncGenerator[bytes, None]:
        async with aclosing(self.inner.chunks()) as chunks:
            while True:
                try:
                    async with asyncio.timeout(self.faulty.idle_limit):
                        chunk = await anext(chunks)
                except StopAsyncIteration:
                    return
                except TimeoutError:
                    msg = "cut by the proxy"
                    raise TransportError(msg) from None
                yield chunk

    async def close(self) -> None:
        await self.inner.close()


class Seen:
    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []

    def handler(self) -> Handler[Pod]:
        return Handler(
            on_add=lambda pod: self.calls.append(("add", pod.metadata.name)),
            on_update=lambda _, pod: self.calls.append(("update", pod.metadata.name)),
            on_delete=lambda pod: self.calls.append(("delete", pod.metadata.name)),
        )


async def add_pod(cluster: Cluster, name: str, **labels: str) -> None:
    body = {
        "metadata": {"name": name, "labels": labels},
        "spec": {"containers": [{"name": "c", "image": "app:v1"}]},
    }
    await cluster.client.create_json(PODS, "default", msgspec.json.encode(body))


async def relabel(cluster: Cluster, name: str, value: str) -> None:
    patch = {"metadata": {"labels": {"x": value}}}
    await cluster.client.patch(PODS, "default", name, patch, PatchType.MERGE)


@asynccontextmanager
async def informer(
    cluster: Cluster,
    transport: Transport | None = None,
    resource: Any = PODS,
    **options: Any,
) -> AsyncGenerator[SharedInformer[Any], None]:
    client = Client(transport or cluster.transport, cluster.clock)
    gates = FeatureGates(
        {
            "AtomicFIFO": options.pop("atomic_fifo", True),
            "WatchListClient": options.pop("stream_lists", True),
        }
    )
    given = {
        "resync_period": 0,
        "logger": silent_logger(),
        "metrics": informer_metrics(),
        **options,
    }
    subject = SharedInformer(client, resource, gates=gates, rng=cluster.rng, **given)
    task = asyncio.create_task(subject.run())
    try:
        yield subject
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def settle() -> None:
    await asyncio.sleep(100)


def names(subject: SharedInformer[Pod]) -> list[str]:
    return sorted(pod.metadata.name for pod in subject.store)


async def assert_equal_to_server(
    subject: SharedInformer[Pod], cluster: Cluster
) -> None:
    page = await cluster.client.list_page(PODS)
    assert {key_of(pod): pod for pod in subject.store} == {
        key_of(pod): pod for pod in page.items
    }


@pytest.mark.parametrize("stream_lists", [True, False])
async def test_each_change_calls_handlers(cluster: Cluster, stream_lists: bool) -> None:
    await add_pod(cluster, "a")
    seen, late = Seen(), Seen()
    async with informer(cluster, stream_lists=stream_lists) as subject:
        subject.add_handler(seen.handler())
        await subject.wait_for_sync()
        await add_pod(cluster, "b")
        await relabel(cluster, "a", "1")
        await cluster.client.delete(PODS, "default", "b")
        await settle()
        subject.add_handler(late.handler())
        await assert_equal_to_server(subject, cluster)
    assert seen.calls == [
        ("add", "a"),
        ("add", "b"),
        ("update", "a"),
        ("update", "b"),  # its deletionTimestamp
        ("delete", "b"),
    ]
    assert late.calls == [("add", "a")]


async def test_a_late_handler_gets_its_objects_in_turns(cluster: Cluster) -> None:
    """An object that changes meanwhile is added once, in its new state."""
    for number in range(1000):
        await add_pod(cluster, f"pod-{number:04}")
    late = Seen()
    async with informer(cluster) as subject:
        await subject.wait_for_sync()
        registration = subject.add_handler(late.handler())
        told = []
        while not registration.is_synced:
            await asyncio.sleep(0)
            told.append(len(late.calls))
            if len(told) == 3:
                subject.deleted(pod("pod-0999", namespace="default"))
                subject.changed(pod("pod-0998", 9999, namespace="default"))
        steps = [after - before for before, after in itertools.pairwise(told)]
        assert max(steps) <= 101
        await registration.wait_for_sync()
        assert late.calls[0] == ("add", "pod-0000")
        assert sorted(late.calls) == [("add", f"pod-{n:04}") for n in range(999)]
        subject.remove_handler(registration)
        await add_pod(cluster, "unheard")
        await settle()
        assert len(late.calls) == 999


async def test_one_watch_serves_all_handlers(cluster: Cluster) -> None:
    """The informer has one watch, however many handlers it has."""
    transport = Faulty(cluster)
    async with informer(cluster, transport) as subject:
        for _ in range(5):
            subject.add_handler(Seen().handler())
        await settle()
    assert len(transport.requests) == 1


async def test_a_broken_connection_is_resumed(cluster: Cluster) -> None:
    transport, seen = Faulty(cluster), Seen()
    await add_pod(cluster, "a")
    async with informer(cluster, transport) as subject:
        subject.add_handler(seen.handler())
        await subject.wait_for_sync()
        transport.spoil = lambda _: None
        await add_pod(cluster, "b")
        await asyncio.sleep(0.1)
        transport.spoil = lambda chunk: chunk
        await add_pod(cluster, "c")
        await settle()
        await assert_equal_to_server(subject, cluster)
    assert seen.calls == [("add", "a"), ("add", "b"), ("add", "c")]
    resumed = dict(transport.requests[-1].query)
    assert "sendInitialEvents" not in resumed
    assert int(resumed["resourceVersion"]) > 0


async def test_an_expired_version_leads_to_a_new_list(cluster: Cluster) -> None:
    transport, seen = Faulty(cluster), Seen()
    await add_pod(cluster, "a", keep="no")
    await add_pod(cluster, "b")
    gone: list[Pod] = []
    async with informer(cluster, transport) as subject:
        subject.add_handler(seen.handler())
        subject.add_handler(Handler(on_delete=gone.append))
        await subject.wait_for_sync()
        transport.spoil = lambda _: None
        await relabel(cluster, "b", "1")
        await asyncio.sleep(0.1)
        await cluster.client.delete(PODS, "default", "a")
        cluster.server.storage.collection("pods").compact()
        transport.spoil = lambda chunk: chunk
        await settle()
        await assert_equal_to_server(subject, cluster)
    assert sorted(seen.calls[2:]) == [("delete", "a"), ("update", "b")]
    assert [labels_of(pod) for pod in gone] == [{"keep": "no"}]


async def test_garbage_on_the_stream_ends_in_a_new_list(cluster: Cluster) -> None:
    transport = Faulty(cluster)
    async with informer(cluster, transport) as subject:
        await subject.wait_for_sync()
        transport.spoil = lambda _: b'{"type":"ADDED","object":[1,2]}\n'
        await add_pod(cluster, "a")
        await asyncio.sleep(0.5)
        transport.spoil = lambda chunk: chunk
        await settle()
        assert names(subject) == ["a"]
        await assert_equal_to_server(subject, cluster)


async def test_lists_that_cannot_stream_are_read_in_pages(cluster: Cluster) -> None:
    def refuse(request: Request) -> Response | None:
        if dict(request.query).get("sendInitialEvents"):
            return Response(422, {}, b'{"reason":"Invalid","code":422}')
        return None

    transport = Faulty(cluster)
    transport.refuse = refuse
    await add_pod(cluster, "a")
    async with informer(cluster, transport) as subject:
        await subject.wait_for_sync()
        await add_pod(cluster, "b")
        await settle()
        assert names(subject) == ["a", "b"]
        assert subject._reflector.state is State.WATCH


def refusing_streamed_lists(code: int) -> Callable[[Request], Response | None]:
    def refuse(request: Request) -> Response | None:
        if dict(request.query).get("sendInitialEvents"):
            return Response(code, {}, b'{"code":%d}' % code)
        return None

    return refuse


@pytest.mark.parametrize("code", [400, 403, 405, 422, 500, 501, 502, 503, 504])
async def test_a_streamed_list_that_is_refused_is_read_in_pages_at_once(
    cluster: Cluster, code: int
) -> None:
    """For every error: a list in pages may work all the same, as in client-go."""
    transport = Faulty(cluster)
    transport.refuse = refusing_streamed_lists(code)
    await add_pod(cluster, "a")
    async with informer(cluster, transport) as subject:
        await asyncio.wait_for(subject.wait_for_sync(), 0.1)
        assert subject.problem() is None
        await add_pod(cluster, "b")
        await settle()
        assert names(subject) == ["a", "b"]


async def test_a_streamed_list_is_tried_again_after_429(cluster: Cluster) -> None:
    transport = Faulty(cluster)
    transport.refuse = refusing_streamed_lists(429)
    async with informer(cluster, transport) as subject:
        await asyncio.sleep(20)
        assert {dict(each.query).get("watch") for each in transport.requests} == {
            "true"
        }
        transport.refuse = lambda _: None
        await asyncio.wait_for(subject.wait_for_sync(), 60)


async def test_an_informer_relists_if_its_role_lacks_watch(cluster: Cluster) -> None:
    """Its cache is up to half a minute old, but the controller works."""
    transport = Faulty(cluster)
    transport.refuse = lambda request: (
        Response(403, {}, b'{"reason":"Forbidden","code":403}')
        if dict(request.query).get("watch")
        else None
    )
    async with informer(cluster, transport) as subject:
        await subject.wait_for_sync()
        await settle()
        await add_pod(cluster, "a")
        await asyncio.sleep(61)
        assert names(subject) == ["a"]
        before = len(transport.requests)
        await asyncio.sleep(600)
        assert len(transport.requests) - before < 3 * 600 / 30


async def test_a_watch_that_a_proxy_cuts_is_resumed_at_once(cluster: Cluster) -> None:
    """The proxy cuts it after 12 s without data; no change is delayed."""
    transport = Faulty(cluster)
    loop = asyncio.get_running_loop()
    late: list[float] = []
    created: dict[str, float] = {}

    def seen(pod: Pod) -> None:
        late.append(loop.time() - created[pod.metadata.name])

    async with informer(cluster, transport, stream_lists=False) as subject:
        subject.add_handler(Handler(on_add=seen))
        transport.idle_limit = 12.0
        for number in range(40):
            await asyncio.sleep(7 + number % 19)
            created[f"pod-{number}"] = loop.time()
            await add_pod(cluster, f"pod-{number}")
        await asyncio.sleep(1)
    assert len(late) == 40
    assert max(late) < 0.01
    watches = [each for each in transport.requests if dict(each.query).get("watch")]
    assert 10 < len(watches) < 100


async def test_a_watch_that_ends_at_once_backs_off(cluster: Cluster) -> None:
    """If the watch was open for less than a second."""
    transport = Faulty(cluster)
    async with informer(cluster, transport, stream_lists=False) as subject:
        await subject.wait_for_sync()
        transport.idle_limit = 0.01
        before = len(transport.requests)
        await asyncio.sleep(600)
        assert len(transport.requests) - before < 40


async def test_a_list_replaces_objects_of_its_version(cluster: Cluster) -> None:
    """An upgraded API server may return fields that the old one did not have."""
    transport = Faulty(cluster)
    await add_pod(cluster, "a")
    updates: list[tuple[str, str]] = []
    async with informer(cluster, transport, stream_lists=False) as subject:
        await subject.wait_for_sync()
        (before,) = subject.store
        upgraded = msgspec.structs.replace(
            before, spec=msgspec.structs.replace(before.spec, node_name="new")
        )
        subject.add_handler(
            Handler(
                on_update=lambda old, new: updates.append(
                    (old.spec.node_name, new.spec.node_name)
                )
            )
        )
        await subject.replaced({key_of(upgraded): upgraded}, subject.resource_version)
        assert list(subject.store) == [upgraded]
        await subject.replaced({key_of(upgraded): upgraded}, subject.resource_version)
    assert updates == [("", "new")]


async def test_a_list_older_than_the_cache_is_rejected(cluster: Cluster) -> None:
    """An API server that is behind must not move the cache back in time."""
    await add_pod(cluster, "a")
    transport, seen = Faulty(cluster), Seen()
    old_page = b'{"metadata":{"resourceVersion":"1"},"items":[]}'
    async with informer(cluster, transport, stream_lists=False) as subject:
        subject.add_handler(seen.handler())
        await subject.wait_for_sync()

        def refuse(request: Request) -> Response | None:
            """Answer as an API server that is behind, except to a quorum read."""
            query = dict(request.query)
            if query.get("watch"):
                return Response(410, {}, b'{"reason":"Expired","code":410}')
            return Response(200, {}, old_page) if "resourceVersion" in query else None

        transport.refuse = refuse
        transport.spoil = lambda _: None
        await add_pod(cluster, "b")
        await asyncio.sleep(20)
        assert names(subject) == ["a", "b"]
        transport.refuse = lambda _: None
        transport.spoil = lambda chunk: chunk
        await settle()
        await assert_equal_to_server(subject, cluster)
    assert seen.calls == [("add", "a"), ("add", "b")]


async def test_an_expired_version_is_not_asked_for_again(cluster: Cluster) -> None:
    """A quorum read has no minimum version, as in client-go."""
    await add_pod(cluster, "a")
    transport = Faulty(cluster)
    async with informer(cluster, transport, stream_lists=False) as subject:
        await subject.wait_for_sync()
        transport.refuse = lambda request: (
            Response(410, {}, b'{"reason":"Expired","code":410}')
            if dict(request.query).get("resourceVersion")
            else None
        )
        transport.spoil = lambda _: None
        await add_pod(cluster, "b")
        await asyncio.sleep(30)
        assert names(subject) == ["a", "b"]


async def test_versions_may_start_again(cluster: Cluster) -> None:
    for name in "abc":
        await add_pod(cluster, name)
    transport = Faulty(cluster)
    page = b'{"metadata":{"resourceVersion":"1"},"items":[]}'
    async with informer(cluster, transport, stream_lists=False) as subject:
        await subject.wait_for_sync()
        transport.refuse = lambda request: (
            Response(410, {}, b'{"reason":"Expired","code":410}')
            if dict(request.query).get("watch")
            else Response(200, {}, page)
        )
        transport.spoil = lambda _: None
        await relabel(cluster, "a", "1")
        await asyncio.sleep(60)
        assert (names(subject), subject.resource_version) == ([], "1")


async def test_a_resync_skips_objects_deleted_meanwhile(cluster: Cluster) -> None:
    """It takes many turns, in which objects may be deleted."""
    for number in range(250):
        await add_pod(cluster, f"pod-{number:03}")
    seen = Seen()
    async with informer(cluster, resync_period=1000) as subject:
        subject.add_handler(seen.handler())
        await subject.wait_for_sync()
        last = subject.store.get("default/pod-249")
        assert last is not None

        def delete_the_last(_: Pod, __: Pod) -> None:
            if subject.store.get("default/pod-249") is not None:
                subject.deleted(last)

        subject.add_handler(Handler(on_update=delete_the_last))
        await asyncio.sleep(2500)
    assert ("delete", "pod-249") in seen.calls
    after = seen.calls[seen.calls.index(("delete", "pod-249")) :]
    assert ("update", "pod-249") not in after


async def test_events_that_were_seen_already_are_dropped(cluster: Cluster) -> None:
    """A stream that repeats itself changes nothing."""
    transport, seen = Faulty(cluster), Seen()
    async with informer(cluster, transport) as subject:
        subject.add_handler(seen.handler())
        await subject.wait_for_sync()
        transport.spoil = lambda chunk: chunk * 3
        await add_pod(cluster, "a")
        await relabel(cluster, "a", "1")
        await settle()
        await assert_equal_to_server(subject, cluster)
    assert seen.calls == [("add", "a"), ("update", "a")]


async def test_a_server_that_answers_no_watch_is_asked_again(cluster: Cluster) -> None:
    async def hung(request: Request) -> Any:
        del request
        await asyncio.sleep(10_000)

    transport = Faulty(cluster)
    async with informer(cluster, transport, stream_lists=False) as subject:
        await subject.wait_for_sync()
        cluster.server.handle = hung  # type: ignore[method-assign]
        transport.idle_limit = 12.0
        await asyncio.sleep(500)
    assert len(transport.requests) > 3


async def test_a_resync_replays_the_cache_as_updates(cluster: Cluster) -> None:
    await add_pod(cluster, "a")
    seen = Seen()
    async with informer(cluster, resync_period=1000) as subject:
        subject.add_handler(seen.handler())
        await asyncio.sleep(1001)
    assert seen.calls == [("add", "a"), ("update", "a")]


async def test_a_pod_with_another_uid_is_another_pod(cluster: Cluster) -> None:
    transport, seen = Faulty(cluster), Seen()
    await add_pod(cluster, "a")
    async with informer(cluster, transport) as subject:
        subject.add_handler(seen.handler())
        await subject.wait_for_sync()
        transport.spoil = lambda _: None
        await add_pod(cluster, "b")
        await asyncio.sleep(0.1)
        await cluster.client.delete(PODS, "default", "b")
        await cluster.client.delete(PODS, "default", "a")
        await add_pod(cluster, "a")
        cluster.server.storage.collection("pods").compact()
        transport.spoil = lambda chunk: chunk
        await settle()
    assert seen.calls == [("add", "a"), ("delete", "a"), ("add", "a")]


async def test_monitors_beyond_the_limit_of_watches_wait(cluster: Cluster) -> None:
    """Each watch takes a connection, and some must be left for writes."""
    log = io.StringIO()
    factory = factory_of(cluster, logger=make_logger(stream=log), max_watches=2)
    factory.informer(PODS)
    first = factory.monitor(NODES)
    second = factory.monitor(CONFIG_MAPS)
    running = asyncio.create_task(factory.run())
    await asyncio.sleep(1)
    assert [each.is_synced for each in factory.all()] == [True, True, False]
    assert '"Not watched, too few open files' in log.getvalue()
    assert 'resource="configmaps"' in log.getvalue()
    factory.stop_monitor(NODES)
    await asyncio.sleep(1)
    assert second.is_synced
    assert first not in factory.all()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


# The store without an informer


def pod(name: str, version: int = 1, owner: str = "", namespace: str = "n") -> Pod:
    owners = [{"kind": "ReplicaSet", "uid": owner, "controller": True}] if owner else []
    metadata = {
        "name": name,
        "namespace": namespace,
        "resourceVersion": str(version),
        "ownerReferences": owners,
    }
    return msgspec.convert({"metadata": metadata}, Pod)


async def test_indexes_follow_the_objects() -> None:
    store: Store[Pod] = Store()
    store.put(pod("a", owner="x"))
    store.add_index(BY_CONTROLLER)
    store.put(pod("b", owner="x"))
    assert [each.metadata.name for each in store.by_index(BY_CONTROLLER, "x")] == [
        "a",
        "b",
    ]
    old = store.put(pod("a", version=2, owner="y"))
    assert old == pod("a", owner="x")
    assert store.by_index(BY_CONTROLLER, "x") == [pod("b", owner="x")]
    assert store.remove("n/b") == pod("b", owner="x")
    assert store.by_index(BY_CONTROLLER, "x") == []
    assert list(store) == [pod("a", version=2, owner="y")]
    assert (len(store), store.get("n/b"), store.remove("n/b")) == (1, None, None)


async def test_odd_versions_are_taken_as_they_come(cluster: Cluster) -> None:
    """Versions of aggregated APIs may have no order."""
    async with informer(cluster) as subject:
        reflector = subject._reflector
        reflector._set_version("12/34", 0)
        for version in ("12/35", "12/36"):
            metadata = PodMeta(name="p", namespace="n", resource_version=version)
            reflector._deliver(Modified(object=Pod(metadata=metadata)))
        cached = subject.store.get("n/p")
    assert cached is not None
    assert cached.metadata.resource_version == subject.resource_version == "12/36"
