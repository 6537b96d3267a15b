"""The nodes: schedule pods, start them, make them ready, and end them in time."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

from controller_manager.api.times import format_time, parse_time
from controller_manager.clock import Clock
from controller_manager.devcluster.kinds.core.event import expire_events
from controller_manager.devcluster.kinds.core.node import KIND as NODE
from controller_manager.devcluster.kinds.core.pod import KIND as POD
from controller_manager.devcluster.kinds.core.pod_binding import bind
from controller_manager.devcluster.nodes.kubelet import (
    needs_start,
    node_status,
    pod_status,
)
from controller_manager.devcluster.nodes.scheduler import fits
from controller_manager.devcluster.server.deletion import Deletion
from controller_manager.devcluster.server.genericapiserver import GenericAPIServer
from controller_manager.devcluster.server.statuses import Refusal

JSON = dict[str, Any]

_EVENT_LIFETIME: Final = timedelta(hours=1)
_HOUSEKEEPING: Final = 60.0


class Nodes:
    """A scheduler, and the kubelets of `count` nodes.

    A pod without a node is assigned to the next node that is not cordoned and whose
    taints it tolerates; without such a node it waits. On its node it is Running and
    Ready after `start_delay` seconds, unless an image begins with ``broken``. A pod
    that is being deleted is removed after its grace period times `grace_scale`.
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
        self._server = server
        self._objects = server.objects
        self._clock = clock
        self._count = count
        self._start_delay = start_delay
        self._grace_scale = grace_scale
        self._next = 0
        self._timers: dict[tuple[str, str], asyncio.TimerHandle] = {}

    def register(self) -> None:
        """Create the node objects."""
        for number in range(self._count):
            name = f"node-{number}"
            node: JSON = {"metadata": {"name": name}}
            self._objects.create(NODE, "", node)
            status = node_status(name, format_time(self._clock.now()))
            self._objects.update(NODE, "", name, {**node, "status": status}, "status")

    async def run(self) -> None:
        """Work until cancelled."""
        collection = self._server.storage.collection(POD.resource)
        watcher = collection.watch(self._server.storage.version)
        others = [
            asyncio.create_task(self._housekeeping(), name="housekeeping"),
            asyncio.create_task(self._watch_nodes(), name="nodes"),
        ]
        try:
            for stored in collection:
                self._sync_pod(stored.obj)
            while True:
                await watcher.wait()
                for change in watcher.take():
                    if change.type == "DELETED":
                        self._stop_timer(change.key)
                    else:
                        self._sync_pod(change.after.obj)
        finally:
            for task in others:
                task.cancel()
            watcher.close()
            for timer in self._timers.values():
                timer.cancel()

    async def _watch_nodes(self) -> None:
        """Schedule waiting pods again when nodes are added or changed."""
        pods = self._server.storage.collection(POD.resource)
        watcher = self._server.storage.collection(NODE.resource).watch(
            self._server.storage.version
        )
        try:
            while True:
                await watcher.wait()
                watcher.take()
                for stored in list(pods):
                    if not stored.obj["spec"].get("nodeName"):
                        self._sync_pod(stored.obj)
        finally:
            watcher.close()

    async def _housekeeping(self) -> None:
        """Delete events after one hour, as an API server does."""
        while True:
            await asyncio.sleep(_HOUSEKEEPING)
            before = self._clock.now() - _EVENT_LIFETIME
            expire_events(self._server.storage, before)

    def _stop_timer(self, key: tuple[str, str]) -> None:
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()

    def _call_later(
        self, seconds: float, pod: JSON, action: Callable[[str, str, str], None]
    ) -> None:
        metadata = pod["metadata"]
        key = (metadata["namespace"], metadata["name"])
        self._stop_timer(key)
        loop = asyncio.get_running_loop()
        self._timers[key] = loop.call_later(
            seconds, self._run_action, action, *key, metadata["uid"]
        )

    def _run_action(
        self,
        action: Callable[[str, str, str], None],
        namespace: str,
        name: str,
        uid: str,
    ) -> None:
        self._timers.pop((namespace, name), None)
        try:
            action(namespace, name, uid)
        except Refusal:
            return  # changed or deleted meanwhile: the next event of the pod follows

    def _sync_pod(self, pod: JSON) -> None:
        metadata, spec = pod["metadata"], pod["spec"]
        key = (metadata["namespace"], metadata["name"])
        if "deletionTimestamp" in metadata:
            if spec.get("nodeName"):
                due = parse_time(metadata["deletionTimestamp"])
                grace = metadata.get("deletionGracePeriodSeconds", 0)
                began = due - timedelta(seconds=grace)
                passed = (self._clock.now() - began).total_seconds()
                self._call_later(
                    max(0.0, grace * self._grace_scale - passed), pod, self._end
                )
        elif not spec.get("nodeName"):
            if self._count:
                self._schedule(pod)
        elif needs_start(pod) and key not in self._timers:
            self._call_later(self._start_delay, pod, self._start)

    def _schedule(self, pod: JSON) -> None:
        fitting = [
            stored.obj["metadata"]["name"]
            for stored in self._server.storage.collection(NODE.resource)
            if fits(pod, stored.obj.get("spec", {}))
        ]
        if not fitting:
            return
        node = fitting[self._next % len(fitting)]
        self._next += 1
        metadata = pod["metadata"]
        try:
            bind(self._objects, POD, metadata["namespace"], metadata["name"], node)
        except Refusal:
            return  # changed or deleted meanwhile

    def _start(self, namespace: str, name: str, uid: str) -> None:
        pod = self._objects.find(POD, namespace, name).obj
        if pod["metadata"]["uid"] != uid or "deletionTimestamp" in pod["metadata"]:
            return
        if not needs_start(pod):
            return  # it has ended meanwhile, and no pod starts twice
        status = pod_status(pod, format_time(self._clock.now()))
        self._objects.update(POD, namespace, name, {**pod, "status": status}, "status")

    def _end(self, namespace: str, name: str, uid: str) -> None:
        options = Deletion(grace_period=0, uid=uid)
        self._objects.delete(POD, namespace, name, options)
