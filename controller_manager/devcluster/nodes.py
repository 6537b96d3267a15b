"""The nodes: pods are scheduled, start, become ready, and end in time."""

import asyncio
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

from controller_manager.api.times import format_time, parse_time
from controller_manager.clock import Clock
from controller_manager.devcluster.apiserver import APIServer
from controller_manager.devcluster.kinds import Kind
from controller_manager.devcluster.objects import Deletion
from controller_manager.devcluster.statuses import Refusal
from controller_manager.version import KUBERNETES_VERSION

JSON = dict[str, Any]

BROKEN: Final = "broken"
"""Images whose name begins so can never be pulled."""

_EVENT_LIFETIME: Final = timedelta(hours=1)
_HOUSEKEEPING: Final = 60.0


class Nodes:
    """A scheduler and the kubelets of `count` nodes, all in one.

    A pod without a node gets one in turn, of those that are not cordoned and
    whose taints it tolerates; else it waits for one. On its node it is Running
    and Ready after `start_delay` seconds, unless an image begins with ``broken``. One
    that is being deleted is gone after its grace period times `grace_scale`.
    """

    def __init__(
        self,
        server: APIServer,
        clock: Clock,
        *,
        count: int = 3,
        start_delay: float = 1.0,
        grace_scale: float = 1.0,
    ) -> None:
        """Take the server to work on, in the same process."""
        self._server = server
        self._objects = server.objects
        self._clock = clock
        self._count = count
        self._start_delay = start_delay
        self._grace_scale = grace_scale
        self._next = 0
        self._timers: dict[tuple[str, str], asyncio.TimerHandle] = {}
        self._pods = self._kind("pods")

    def _kind(self, plural: str) -> Kind:
        kind = self._server.catalogue.find("", "v1", plural)
        assert kind is not None, plural  # noqa: S101 - rows of the catalogue
        return kind

    def register(self) -> None:
        """Create the node objects."""
        nodes = self._kind("nodes")
        for number in range(self._count):
            node: JSON = {"metadata": {"name": f"node-{number}"}}
            self._objects.create(nodes, "", node)
            status = {
                "capacity": {"cpu": "8", "memory": "32Gi", "pods": "1000"},
                "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "1000"},
                "conditions": [
                    {
                        "type": "Ready",
                        "status": "True",
                        "reason": "KubeletReady",
                        "message": "the development cluster's kubelet is ready",
                        "lastHeartbeatTime": format_time(self._clock.now()),
                        "lastTransitionTime": format_time(self._clock.now()),
                    }
                ],
                "nodeInfo": _node_info(f"node-{number}"),
            }
            self._objects.update(
                nodes, "", f"node-{number}", {**node, "status": status}, "status"
            )

    async def run(self) -> None:
        """Work until cancelled."""
        collection = self._server.storage.collection("pods")
        watcher = collection.watch(self._server.storage.version)
        others = [
            asyncio.create_task(self._housekeeping(), name="housekeeping"),
            asyncio.create_task(self._watch_nodes(), name="nodes"),
        ]
        try:
            for stored in collection:
                self._look_at(stored.obj)
            while True:
                await watcher.wait()
                for change in watcher.take():
                    if change.type == "DELETED":
                        self._stop_timer(change.key)
                    else:
                        self._look_at(change.after.obj)
        finally:
            for task in others:
                task.cancel()
            watcher.close()
            for timer in self._timers.values():
                timer.cancel()

    async def _watch_nodes(self) -> None:
        """Look again at the pods that wait when nodes come or change."""
        pods = self._server.storage.collection("pods")
        watcher = self._server.storage.collection("nodes").watch(
            self._server.storage.version
        )
        try:
            while True:
                await watcher.wait()
                watcher.take()
                for stored in list(pods):
                    if not stored.obj["spec"].get("nodeName"):
                        self._look_at(stored.obj)
        finally:
            watcher.close()

    async def _housekeeping(self) -> None:
        """Drop events after an hour, as an API server does."""
        while True:
            await asyncio.sleep(_HOUSEKEEPING)
            self._objects.expire(self._kind("events"), _EVENT_LIFETIME)

    def _stop_timer(self, key: tuple[str, str]) -> None:
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()

    def _in(
        self, seconds: float, pod: JSON, action: Callable[[str, str, str], None]
    ) -> None:
        metadata = pod["metadata"]
        key = (metadata["namespace"], metadata["name"])
        self._stop_timer(key)
        loop = asyncio.get_running_loop()
        self._timers[key] = loop.call_later(
            seconds, self._attempt, action, *key, metadata["uid"]
        )

    def _attempt(
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
            return  # changed or gone meanwhile: its next event is looked at

    def _look_at(self, pod: JSON) -> None:
        metadata, spec = pod["metadata"], pod["spec"]
        key = (metadata["namespace"], metadata["name"])
        if "deletionTimestamp" in metadata:
            if spec.get("nodeName"):
                due = parse_time(metadata["deletionTimestamp"])
                grace = metadata.get("deletionGracePeriodSeconds", 0)
                began = due - timedelta(seconds=grace)
                passed = (self._clock.now() - began).total_seconds()
                self._in(max(0.0, grace * self._grace_scale - passed), pod, self._end)
        elif not spec.get("nodeName"):
            if self._count:
                self._schedule(pod)
        elif _needs_start(pod) and key not in self._timers:
            self._in(self._start_delay, pod, self._start)

    def _schedule(self, pod: JSON) -> None:
        fitting = [
            stored.obj["metadata"]["name"]
            for stored in self._server.storage.collection("nodes")
            if _fits(pod, stored.obj.get("spec", {}))
        ]
        if not fitting:
            return
        node = fitting[self._next % len(fitting)]
        self._next += 1
        metadata = pod["metadata"]
        try:
            self._objects.bind(
                self._pods, metadata["namespace"], metadata["name"], node
            )
        except Refusal:
            return  # changed or gone meanwhile

    def _start(self, namespace: str, name: str, uid: str) -> None:
        pod = self._objects.find(self._pods, namespace, name).obj
        if pod["metadata"]["uid"] != uid or "deletionTimestamp" in pod["metadata"]:
            return
        status = self._status(pod)
        self._objects.update(
            self._pods, namespace, name, {**pod, "status": status}, "status"
        )

    def _status(self, pod: JSON) -> JSON:
        now = format_time(self._clock.now())
        containers = pod["spec"]["containers"]
        broken = any(_is_broken(each) for each in containers)
        ready = "False" if broken else "True"
        conditions = [
            {"type": type_, "status": status, "lastTransitionTime": now}
            for type_, status in (
                ("Initialized", "True"),
                ("Ready", ready),
                ("ContainersReady", ready),
                ("PodScheduled", "True"),
            )
        ]
        status = {
            **pod.get("status", {}),
            "phase": "Pending" if broken else "Running",
            "conditions": conditions,
            "containerStatuses": [_container_status(each, now) for each in containers],
            "startTime": now,
        }
        if not broken:
            number = int(pod["metadata"]["uid"].replace("-", "")[:8], 16)
            status["podIP"] = f"10.244.{number >> 8 & 255}.{number & 255}"
            status["podIPs"] = [{"ip": status["podIP"]}]
        return status

    def _end(self, namespace: str, name: str, uid: str) -> None:
        options = Deletion(grace_period=0, uid=uid)
        self._objects.delete(self._pods, namespace, name, options)


def _node_info(name: str) -> JSON:
    """Return what the kubelet of a node reports about its machine."""
    machine = uuid.uuid5(uuid.NAMESPACE_DNS, name)
    return {
        "machineID": machine.hex,
        "systemUUID": str(machine),
        "bootID": str(uuid.uuid5(machine, "boot")),
        "kernelVersion": "6.12.0",
        "osImage": "Debian GNU/Linux 13 (trixie)",
        "containerRuntimeVersion": "containerd://2.1.4",
        "kubeletVersion": KUBERNETES_VERSION,
        # Since 1.33 kubelets leave this field empty.
        "kubeProxyVersion": "",
        "operatingSystem": "linux",
        "architecture": "amd64",
    }


def _fits(pod: JSON, node: JSON) -> bool:
    """Tell whether a node, given by its spec, takes a new pod."""
    tolerations = pod["spec"].get("tolerations", [])
    return not node.get("unschedulable") and all(
        any(_tolerates(each, taint) for each in tolerations)
        for taint in node.get("taints", [])
        if taint["effect"] != "PreferNoSchedule"
    )


def _tolerates(toleration: JSON, taint: JSON) -> bool:
    if toleration.get("effect") not in {None, "", taint["effect"]}:
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key") in {None, "", taint["key"]}
    return (toleration.get("key"), toleration.get("value", "")) == (
        taint["key"],
        taint.get("value", ""),
    )


def _needs_start(pod: JSON) -> bool:
    status = pod.get("status", {})
    return status.get("phase") == "Pending" and (
        not status.get("containerStatuses") or _image_changed(pod)
    )


def _image_changed(pod: JSON) -> bool:
    """Tell whether a pod that could not start got other images."""
    statuses = pod["status"]["containerStatuses"]
    images = [each["image"] for each in pod["spec"]["containers"]]
    return images != [each.get("image") for each in statuses]


def _is_broken(container: JSON) -> bool:
    return str(container["image"]).rpartition("/")[2].startswith(BROKEN)


def _container_status(container: JSON, now: str) -> JSON:
    broken = _is_broken(container)
    if broken:
        message = f'Back-off pulling image "{container["image"]}"'
        state: JSON = {"waiting": {"reason": "ImagePullBackOff", "message": message}}
    else:
        state = {"running": {"startedAt": now}}
    return {
        "name": container["name"],
        "image": container["image"],
        "imageID": "",
        "ready": not broken,
        "started": not broken,
        "restartCount": 0,
        "state": state,
    }
