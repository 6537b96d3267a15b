"""The nodes: the scheduler, the kubelets and the volume binder of a cluster."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

from controller_manager.clock import Clock
from controller_manager.devcluster.kinds.core.event import expire_events
from controller_manager.devcluster.kinds.core.node import KIND as NODE
from controller_manager.devcluster.kinds.core.persistentvolume import KIND as VOLUME
from controller_manager.devcluster.kinds.core.persistentvolumeclaim import (
    KIND as CLAIM,
)
from controller_manager.devcluster.kinds.core.pod import KIND as POD
from controller_manager.devcluster.kinds.storage.storageclass import KIND as CLASS
from controller_manager.devcluster.nodes.claims import ClaimBinder, storage_classes
from controller_manager.devcluster.nodes.heartbeats import Heartbeats
from controller_manager.devcluster.nodes.kubelet import Kubelet
from controller_manager.devcluster.nodes.node_status import is_stopped
from controller_manager.devcluster.nodes.reports import Reporter
from controller_manager.devcluster.nodes.scheduler import Scheduler
from controller_manager.devcluster.server.genericapiserver import GenericAPIServer
from controller_manager.devcluster.server.kind import Kind
from controller_manager.devcluster.server.storage import Change, Watcher

JSON = dict[str, Any]

_EVENT_LIFETIME: Final = timedelta(hours=1)
_HOUSEKEEPING: Final = 60.0


class Nodes:
    """A scheduler, the kubelets of `count` nodes, and a binder of volume claims.

    Images are on a pod's node after `start_delay` seconds, except those whose name
    begins with ``broken``. A pod that is being deleted is removed after its grace
    period times `grace_scale`. Without nodes there is no scheduler, no kubelet and no
    binder: other programs may play them.
    """

    def __init__(
        self,
        server: GenericAPIServer,
        clock: Clock,
        *,
        count: int = 3,
        start_delay: float = 1.0,
        grace_scale: float = 1.0,
    ) -> None:
        """Take the API server, which is in the same process."""
        objects = server.objects
        self._objects = objects
        self._storage = server.storage
        self._clock = clock
        self._count = count
        self._heartbeats = Heartbeats(objects, count)
        report = self._report = Reporter(objects)
        self._claims = ClaimBinder(objects, report)
        self._scheduler = Scheduler(objects, self._claims, report)
        self._kubelet = Kubelet(
            objects, report, start_delay=start_delay, grace_scale=grace_scale
        )

    def register(self) -> None:
        """Create the node objects, and the storage classes that they offer."""
        self._heartbeats.register()
        if self._count:
            for each in storage_classes():
                self._objects.create(CLASS, "", each)

    async def run(self) -> None:
        """Work until cancelled."""
        followed = (
            (NODE, self._node_changed),
            (CLASS, self._claims.class_changed),
            (VOLUME, self._claims.volume_changed),
            (CLAIM, self._claim_changed),
            (POD, self._pod_changed),
        )
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._housekeeping(), name="housekeeping")
                tasks.create_task(self._heartbeats.run(), name="heartbeats")
                for kind, react in followed if self._count else ():
                    watcher = self._list_and_watch(kind, react)
                    tasks.create_task(_follow(watcher, react), name=kind.plural)
        finally:
            self._kubelet.close()

    def _list_and_watch(self, kind: Kind, react: Callable[[Change], None]) -> Watcher:
        """React to all objects of a kind; return a watcher of their changes."""
        collection = self._storage.collection(kind.resource)
        watcher = collection.watch(self._storage.version)
        for stored in collection:
            metadata = stored.obj["metadata"]
            key = (metadata.get("namespace", ""), metadata["name"])
            _react(react, Change(stored.version, "ADDED", key, stored, None))
        return watcher

    def _node_changed(self, change: Change) -> None:
        self._scheduler.node_changed(change)
        if change.type == "MODIFIED" and change.before is not None:
            node = change.after.obj
            if is_stopped(change.before.obj) and not is_stopped(node):
                self._start(node)

    def _start(self, node: JSON) -> None:
        """Let the kubelet of a node work again, which was stopped."""
        name = node["metadata"]["name"]
        self._report.kubelet_started(node)
        self._heartbeats.beat(name)
        self._kubelet.resume(name)

    def _claim_changed(self, change: Change) -> None:
        self._claims.claim_changed(change)
        self._scheduler.claim_changed(change.key)

    def _pod_changed(self, change: Change) -> None:
        if change.type == "DELETED":
            self._scheduler.forget(change.key)
            self._kubelet.forget(change.key)
        elif change.after.obj["spec"].get("nodeName"):
            self._scheduler.forget(change.key)
            self._kubelet.sync(change.key)
        else:
            self._scheduler.sync(change.key)

    async def _housekeeping(self) -> None:
        """Delete old events, as an API server does; try waiting pods again."""
        while True:
            await asyncio.sleep(_HOUSEKEEPING)
            expire_events(self._storage, self._clock.now() - _EVENT_LIFETIME)
            self._scheduler.retry_all()


async def _follow(watcher: Watcher, react: Callable[[Change], None]) -> None:
    try:
        while True:
            await watcher.wait()
            for change in watcher.take():
                _react(react, change)
    finally:
        watcher.close()


def _react(react: Callable[[Change], None], change: Change) -> None:
    """React to a change; an object that nobody understands stops no other."""
    try:
        react(change)
    except Exception as error:  # noqa: BLE001 - reported, not swallowed
        metadata = change.after.obj["metadata"]
        kind = change.after.obj["kind"]
        message = f"The nodes cannot handle {kind} {metadata['name']}"
        asyncio.get_running_loop().call_exception_handler(
            {"message": message, "exception": error}
        )
