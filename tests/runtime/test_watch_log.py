"""At -v=5 the log says which change added a key, and which change added none."""

import asyncio
import io
import json
from collections.abc import AsyncGenerator
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
from controller_manager.client.builder import Connections
from controller_manager.client.rest.client import PatchType
from controller_manager.informers.changes import DependsOn
from controller_manager.informers.dispatch import Handler
from controller_manager.manager.manager import ControllerManager
from controller_manager.observability.logs import Logger, make_logger
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.outcome import DONE, Done, Outcome
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.registry import Registry
from controller_manager.runtime.watches import For, Handles, Maps
from tests.clusters import Cluster, make_config
from tests.controllers.user import settle

pytestmark = pytest.mark.looptime

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
    manager = ControllerManager(
        make_config(controllers=("watching",)),
        Connections(cluster.transport),
        clock=cluster.clock,
        rng=cluster.rng,
        logger=logger,
        build=Registry((controller,)),
    )
    stop = asyncio.Event()
    running = asyncio.create_task(manager.run(stop))
    await manager.started.wait()
    await settle()
    yield manager
    stop.set()
    await running


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
