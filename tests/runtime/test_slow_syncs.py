"""Slow syncs and silent watches are told."""

import asyncio
import io
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import ClassVar

import pytest

from controller_manager.api.core.v1 import (
    CONFIG_MAPS,
    NAMESPACES,
    NODES,
    ConfigMap,
    Namespace,
    Node,
)
from controller_manager.api.meta import ObjectMeta, labels_of
from controller_manager.client.rest.client import PatchType
from controller_manager.client.rest.limits import ON_WAIT
from controller_manager.clock import LoopClock
from controller_manager.informers.changes import DependsOn
from controller_manager.informers.dispatch import Handler
from controller_manager.manager.manager import ControllerManager
from controller_manager.observability.logs import Logger, make_logger
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.outcome import DONE, Done, Outcome
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.registry import Registry
from controller_manager.runtime.watches import For, Handles, Maps
from controller_manager.workqueue.queue import WorkQueue
from tests.clusters import EPOCH, Cluster, make_config, manager_of, running_manager
from tests.controllers.user import settle
from tests.runtime.test_worker import workers_of

pytestmark = pytest.mark.looptime


class Server:
    """Keeps some syncs waiting for ten seconds, others for a tenth.

    The slow ones are those of some namespaces or keys.
    """

    def __init__(self, *slow: str) -> None:
        self.slow = slow
        self.running: set[str] = set()
        self.most = 0
        self.began: dict[str, float] = {}
        self.ended: dict[str, float] = {}

    async def sync(self, key: str) -> Outcome:
        loop = asyncio.get_running_loop()
        self.began[key] = round(loop.time(), 3)
        self.running.add(key)
        self.most = max(self.most, len(self.running))
        on_wait = ON_WAIT.get()
        assert on_wait is not None
        timer = loop.call_later(1, on_wait)
        is_slow = key in self.slow or key.partition("/")[0] in self.slow
        await asyncio.sleep(10 if is_slow else 0.1)
        timer.cancel()
        self.running.discard(key)
        self.ended[key] = round(loop.time(), 3)
        return DONE


async def run(
    server: Server,
    *keys: str,
    count: int = 2,
    gives_way: bool = True,
    later: Callable[[WorkQueue], Awaitable[None]] | None = None,
) -> None:
    """Sync the keys, in this order."""
    workers = workers_of(
        WorkQueue(LoopClock(EPOCH)), server.sync, count, gives_way=gives_way
    )
    queue = workers.queue
    running = asyncio.create_task(workers.run())
    await asyncio.sleep(0)
    for key in keys:
        queue.add(key)
    if later is not None:
        await later(queue)
    await queue.drained()
    assert later is not None or workers._alive == count
    workers.stop()
    await running


async def test_other_namespaces_wait_for_a_second_at_most() -> None:
    """The keys of the slow one are synced two at a time, as the flag says."""
    server = Server("slow")
    slow = [f"slow/{number}" for number in range(6)]
    await run(server, *slow, "a/1", "b/1", "a/2")
    assert [server.began[each] for each in slow] == [0, 0, 10, 10, 20, 20]
    assert [server.began[each] for each in ("a/1", "b/1", "a/2")] == [1, 1, 1.1]


async def test_syncs_that_are_quick_have_as_many_workers_as_the_flag_says() -> None:
    server = Server("slow")
    quick = [f"{number}/quick" for number in range(6)]
    await run(server, "slow/1", "slow/2", *quick)
    assert [server.began[each] for each in quick] == [1, 1, 1.1, 1.1, 1.2, 1.2]
    assert server.most == 4


async def test_there_are_four_times_as_many_workers_at_most() -> None:
    """However many namespaces are slow."""
    namespaces = [f"ns{number}" for number in range(12)]
    server = Server(*namespaces)
    keys = [f"{each}/web" for each in namespaces]
    await run(server, *keys)
    assert server.most == 8
    assert [server.began[each] for each in keys] == [
        *(0, 0, 1, 1, 2, 2, 3, 3),
        *(10, 10, 11, 11),
    ]


async def test_a_key_that_had_to_wait_comes_before_those_behind_it() -> None:
    """As soon as its namespace may have another place."""
    server = Server("slow")

    async def later(queue: WorkQueue) -> None:
        await asyncio.sleep(5)
        queue.add("other/1")
        await asyncio.sleep(3)
        queue.add("slow/4")

    await run(server, "slow/1", "slow/2", "slow/3", later=later)
    assert server.began == {
        "slow/1": 0,
        "slow/2": 0,
        "other/1": 5,
        "slow/3": 10,
        "slow/4": 10,
    }


async def test_one_slow_key_does_not_keep_its_namespace_waiting_behind_others() -> None:
    server = Server("slow/1")

    async def later(queue: WorkQueue) -> None:
        for number in range(60):
            for name in "abc":
                queue.add(f"other/{name}{number}")
            if number == 20:
                queue.add("slow/2")
            await asyncio.sleep(0.1)

    await run(server, "slow/1", later=later)
    assert server.ended["slow/1"] == 10
    assert server.began["slow/2"] < 5


async def test_objects_without_a_namespace_are_each_their_own() -> None:
    server = Server("node-1", "node-2")
    await run(server, "node-1", "node-2", "node-3")
    assert server.began["node-3"] == 1


async def test_a_reconcile_that_relies_on_its_workers_has_no_more() -> None:
    server = Server("slow")
    await run(server, "slow/1", "other/1", count=1, gives_way=False)
    assert (server.began["other/1"], server.most) == (10, 1)


async def test_a_stop_does_not_wait_for_other_keys() -> None:
    """The syncs in progress end, and nothing else begins."""
    server = Server("slow")

    async def later(queue: WorkQueue) -> None:
        await asyncio.sleep(0.5)
        queue.shut_down()

    await run(server, "slow/1", "slow/2", "a/1", later=later)
    assert sorted(server.ended) == ["slow/1", "slow/2"]


async def test_a_sync_that_ends_slowly_after_a_cancellation_starts_no_worker() -> None:
    """It may wait for longer than a second while it cleans up."""

    async def end_slowly(_: str) -> Outcome:
        on_wait = ON_WAIT.get()
        assert on_wait is not None
        asyncio.get_running_loop().call_later(1, on_wait)
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(2)
        return DONE

    failures: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: failures.append(context)
    )
    workers = workers_of(WorkQueue(LoopClock(EPOCH)), end_slowly)
    running = asyncio.create_task(workers.run())
    await asyncio.sleep(0)
    workers.queue.add("a/1")
    await asyncio.sleep(0.5)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert failures == []
    assert workers._alive == 0


ENQUEUED = "Enqueued"
ADDS_NONE = "Change adds no key"
UNSEEN = "No handler looks at change"


class Watching(Reconciler[Node]):
    """Reconciles nodes, and has a watch of each other kind."""

    fails: ClassVar[set[str]] = set()

    def _named(self, config_map: ConfigMap) -> tuple[str, ...]:
        return (config_map.metadata.name,)

    def _namespace_changed(self, namespace: Namespace) -> None:
        if self.nodes_of.get(namespace.metadata.name):
            self.queue.add_after(self.nodes_of[namespace.metadata.name], 2.0)

    watches = (
        For(
            NODES,
            when=lambda node: labels_of(node).get("skip") is None,
            depends_on=DependsOn("metadata.labels"),
        ),
        Maps(CONFIG_MAPS, _named, on=("delete",)),
        Handles(NAMESPACES, lambda self: Handler(on_add=self._namespace_changed)),
    )

    nodes_of: ClassVar[dict[str, str]] = {"shop": "n"}

    async def reconcile(self, obj: Node) -> Outcome:
        if obj.metadata.name in self.fails:
            self.fails.discard(obj.metadata.name)
            msg = "once"
            raise ValueError(msg)
        return Done(1e6) if obj.metadata.name == "later" else DONE


@asynccontextmanager
async def logging_manager(
    cluster: Cluster, logger: Logger
) -> AsyncGenerator[ControllerManager, None]:
    controller = Descriptor(
        name="watching",
        requires=(NODES, CONFIG_MAPS, NAMESPACES),
        load=f"{__name__}:Watching",
    )
    manager = manager_of(
        cluster,
        make_config(controllers=("watching",)),
        logger=logger,
        build=Registry((controller,)),
    )
    async with running_manager(manager):
        await settle()
        yield manager


class Lines:
    """The lines of the log that concern changes; each is read once."""

    def __init__(self, verbosity: int) -> None:
        self._stream = io.StringIO()
        self.logger = make_logger(
            output="json", verbosity=verbosity, stream=self._stream
        )

    def read(self) -> list[tuple[str, str, str]]:
        """Return the message, the key and the cause of each line so far."""
        lines = map(json.loads, self._stream.getvalue().splitlines())
        self._stream.seek(0)
        self._stream.truncate()
        return [
            (each["msg"], each.get("key", ""), each["cause"])
            for each in lines
            if each["msg"] in (ENQUEUED, ADDS_NONE, UNSEEN)
        ]


async def test_each_key_is_logged_with_its_cause(cluster: Cluster) -> None:
    """A change, the controller at its start, or the sync that asks for another one."""
    Watching.fails.clear()
    lines = Lines(5)
    cluster.add("Node", "old")
    async with logging_manager(cluster, lines.logger):
        assert (ENQUEUED, "old", "the controller itself") in lines.read()
        cluster.add("Node", "later")
        await settle()
        assert lines.read() == [
            (ENQUEUED, "later", "add of nodes later"),
            (ENQUEUED, "later", "its own sync"),
        ]
        Watching.fails.add("bad")
        cluster.add("Node", "bad")
        await settle()
        assert lines.read() == [
            (ENQUEUED, "bad", "add of nodes bad"),
            (ENQUEUED, "bad", "its own sync"),
        ]
        cluster.add_namespace("shop")
        await settle()
        assert lines.read() == [(ENQUEUED, "n", "add of namespaces shop")]


async def test_a_change_without_a_key_is_logged(cluster: Cluster) -> None:
    """One that a predicate rejects, and one that no handler looks at."""
    lines = Lines(5)
    cluster.add("Node", "n")
    async with logging_manager(cluster, lines.logger):
        lines.read()
        cluster.add_namespace("other")
        await patch(cluster, {"metadata": {"labels": {"skip": "yes"}}})
        await patch(cluster, {"spec": {"unschedulable": True}})
        assert lines.read() == [
            (ADDS_NONE, "", "add of namespaces other"),
            (ADDS_NONE, "", "update of nodes n"),
            (UNSEEN, "", "update of nodes n"),
        ]
        metadata = ObjectMeta(name="n", namespace="default")
        await cluster.client.create(CONFIG_MAPS, ConfigMap(metadata=metadata))
        await settle()
        labels = {"metadata": {"labels": {"a": "b"}}}
        await cluster.client.patch(CONFIG_MAPS, "default", "n", labels, PatchType.MERGE)
        await settle()
        await cluster.client.delete(CONFIG_MAPS, "default", "n")
        await settle()
        assert lines.read() == [
            (UNSEEN, "", "update of configmaps default/n"),
            (ENQUEUED, "n", "delete of configmaps default/n"),
        ]


async def test_the_verbosity_may_change_while_the_daemon_runs(cluster: Cluster) -> None:
    """From then on each key is logged with its cause; below it, none is."""
    lines = Lines(4)
    async with logging_manager(cluster, lines.logger):
        cluster.add("Node", "n")
        await settle()
        assert lines.read() == []
        lines.logger.set_verbosity(5)
        await patch(cluster, {"metadata": {"labels": {"a": "b"}}})
        await patch(cluster, {"metadata": {"labels": {"skip": "yes"}}})
        assert lines.read() == [
            (ENQUEUED, "n", "update of nodes n"),
            (ADDS_NONE, "", "update of nodes n"),
        ]


async def patch(cluster: Cluster, change: dict[str, object]) -> None:
    await cluster.client.patch(NODES, "", "n", change, PatchType.MERGE)
    await settle()
