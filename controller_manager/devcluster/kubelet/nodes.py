"""The nodes: the scheduler, the kubelets and the driver of volumes of a cluster."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.clock import Clock
from controller_manager.devcluster.apiserver.genericapiserver import GenericAPIServer
from controller_manager.devcluster.apiserver.kind import Kind
from controller_manager.devcluster.apiserver.objects import Objects
from controller_manager.devcluster.csi import driver
from controller_manager.devcluster.csi.volumes import Mounts, Provisioner, Resizer
from controller_manager.devcluster.registry import networking
from controller_manager.devcluster.registry.core.cluster import NODES as NODE
from controller_manager.devcluster.registry.core.pods import KIND as POD
from controller_manager.devcluster.registry.core.secrets import (
    CONFIG_MAPS as CONFIG_MAP,
)
from controller_manager.devcluster.registry.core.secrets import SECRETS as SECRET
from controller_manager.devcluster.registry.core.volumes import CLAIMS as CLAIM
from controller_manager.devcluster.registry.core.volumes import VOLUMES as VOLUME
from controller_manager.devcluster.registry.events import expire_events
from controller_manager.devcluster.registry.resource import CLAIMS as DEVICE_CLAIMS
from controller_manager.devcluster.registry.storage import (
    ATTACHMENTS,
    DRIVERS,
    STORAGE_CLASSES,
)
from controller_manager.devcluster.scheduler.node_infos import NodeInfos
from controller_manager.devcluster.scheduler.scheduler import Scheduler
from controller_manager.devcluster.scheduler.volumes import VolumeBinding, claim_key
from controller_manager.devcluster.storage import Change, Watcher, key_of

from .events import Reporter
from .kubelet import Kubelet
from .logs import PodLogs
from .node_status import (
    CAPACITY,
    IPV4,
    IPV6,
    PRESSURE,
    Evictions,
    Heartbeats,
    PodFit,
    is_stopped,
)
from .pod_status import is_over
from .server import connect

_EVENT_LIFETIME: Final = timedelta(hours=1)
_HOUSEKEEPING: Final = 60.0


class Nodes:
    """A scheduler, the kubelets of `count` nodes, and a driver of volumes.

    Images are on a pod's node after `start_delay` seconds, except those whose name
    begins with ``broken``. A pod that is being deleted is removed after its grace
    period times `grace_scale`. The driver makes volumes, attaches and resizes them;
    each of the three can be left to another program. Without nodes there is no
    scheduler, no kubelet and no driver.
    """

    def __init__(  # noqa: PLR0913 - the settings of a cluster, given by name
        self,
        server: GenericAPIServer,
        clock: Clock,
        *,
        count: int = 3,
        start_delay: float = 1.0,
        grace_scale: float = 1.0,
        provisioner: bool = True,
        attacher: bool = True,
        resizer: bool = True,
        details: bool = True,
    ) -> None:
        """Take the API server, which is in the same process.

        Without `details`, there are events only for problems of pods.
        """
        objects = server.objects
        self._server = server
        self._objects = objects
        self._storage = server.storage
        self._clock = clock
        self._count = count
        kubelets = objects.in_name_of("kubelet")
        scheduler = objects.in_name_of("kube-scheduler")
        report = self._report = Reporter(objects, details=details)
        storage = driver.StorageObjects(objects.in_name_of("csi-devcluster"))
        self._binding = VolumeBinding(driver.StorageObjects(scheduler))
        infos = NodeInfos()
        self._scheduler = Scheduler(scheduler, infos, self._binding, report)
        self._mounts = Mounts(driver.StorageObjects(kubelets), report)
        self._kubelet = Kubelet(
            kubelets,
            report,
            self._mounts,
            PodFit(infos),
            start_delay=start_delay,
            grace_scale=grace_scale,
            families=_families(objects),
        )
        evictions = Evictions(
            kubelets, report, self._scheduler.pods_on, self._kubelet.evict
        )
        self._heartbeats = Heartbeats(kubelets, count, evictions.relieve)
        self._provisioner = Provisioner(storage, report) if provisioner else None
        self._attacher = driver.Attacher(storage) if attacher else None
        self._resizer = Resizer(storage, report) if resizer else None

    def register(self) -> None:
        """Create the node objects, the driver, and its storage classes.

        From now on the API server asks the nodes for logs, passes requests on, and
        serves the guide to the nodes.
        """
        connect(self._server, self._kubelet.execute if self._count else None)
        if self._count:
            logs = PodLogs(self._objects, self._kubelet.files)
            self._server.connect(POD.resource, "log", logs.answer)
        self._heartbeats.register()
        if self._count:
            self._create_missing(DRIVERS, driver.csi_driver())
            for each in driver.storage_classes():
                self._create_missing(STORAGE_CLASSES, each)

    def _create_missing(self, kind: Kind, obj: JSON) -> None:
        """Create an object of the cluster, unless an earlier run has done so."""
        if not self._objects.has(kind, "", obj["metadata"]["name"]):
            self._objects.create(kind, "", obj)

    async def run(self) -> None:
        """Work until cancelled."""
        followed = (
            (NODE, self._node_changed),
            (VOLUME, self._volume_changed),
            (CLAIM, self._claim_changed),
            (ATTACHMENTS, self._attachment_changed),
            (
                DEVICE_CLAIMS,
                self._device_claim_changed,
            ),
            (POD, self._pod_changed),
            (CONFIG_MAP, self._source_changed),
            (SECRET, self._source_changed),
        )
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._housekeeping(), name="housekeeping")
                tasks.create_task(self._heartbeats.run(), name="heartbeats")
                for kind, react in followed if self._count else ():
                    watcher = self._list_and_watch(kind, react)
                    tasks.create_task(_follow(watcher, react), name=kind.plural)
        finally:
            self._scheduler.close()
            self._kubelet.close()
            self._mounts.close()
            if self._resizer is not None:
                self._resizer.close()

    def _list_and_watch(self, kind: Kind, react: Callable[[Change], None]) -> Watcher:
        """React to all objects of a kind; return a watcher of their changes."""
        collection = self._storage.collection(kind.resource)
        watcher = collection.watch(collection.version)
        for stored in collection:
            key = key_of(stored.obj)
            _react(react, Change(stored.version, "ADDED", key, stored, None))
        return watcher

    def _node_changed(self, change: Change) -> None:
        self._scheduler.node_changed(change)
        for key in self._mounts.ready_on(change.key[1]):
            self._kubelet.sync(key)
        if change.type == "ADDED":
            self._mounts.settle(change.key[1])
        if change.type == "MODIFIED" and change.before is not None:
            node = change.after.obj
            if is_stopped(change.before.obj) and not is_stopped(node):
                self._start(node)
            elif _annotations_differ(change.before.obj, node):
                self._heartbeats.beat(change.key[1])

    def _start(self, node: JSON) -> None:
        name = node["metadata"]["name"]
        self._report.kubelet_started(node)
        self._heartbeats.beat(name)
        self._kubelet.resume(name)

    def _volume_changed(self, change: Change) -> None:
        self._binding.volume_changed(change)
        if self._provisioner is not None:
            self._provisioner.volume_changed(change)
        if self._attacher is not None:
            self._attacher.volume_changed(change)

    def _claim_changed(self, change: Change) -> None:
        if self._provisioner is not None:
            self._provisioner.claim_changed(change)
        if self._resizer is not None:
            self._resizer.claim_changed(change)
        self._mounts.claim_changed(change.key)
        self._scheduler.claim_changed(change.key)
        for key in self._mounts.waiting_for(change.key):
            self._kubelet.sync(key)

    def _device_claim_changed(self, change: Change) -> None:
        self._scheduler.claim_changed(claim_key(change.key))

    def _attachment_changed(self, change: Change) -> None:
        if self._attacher is not None:
            self._attacher.attachment_changed(change)

    def _pod_changed(self, change: Change) -> None:
        if change.type == "DELETED":
            self._scheduler.pod_changed(change.key, None)
            self._kubelet.removed(change.after.obj)
            self._mounts.release(change.after.obj)
            for claim in driver.claims_of(change.after.obj):
                self._scheduler.claim_changed(claim)  # only one pod may use it
        elif change.after.obj["spec"].get("nodeName"):
            if not _is_same_for_others(change):
                self._scheduler.pod_changed(change.key, change.after.obj)
            self._kubelet.pod_changed(change)
            if _is_back(change):
                self._kubelet.adopt(change.key)
        elif not _changes_explanation(change):
            self._scheduler.sync(change.key)

    def _source_changed(self, change: Change) -> None:
        self._kubelet.source_changed(change.after.obj["kind"].lower(), change.key)

    async def _housekeeping(self) -> None:
        """Delete old events, as an API server does; look at waiting pods again."""
        while True:
            await asyncio.sleep(_HOUSEKEEPING)
            expire_events(self._storage, self._clock.now() - _EVENT_LIFETIME)
            self._scheduler.retry_all()
            self._mounts.report_late()
            self._kubelet.report_late()


def _is_back(change: Change) -> bool:
    """Tell whether a pod may run although this program did not start it.

    It ran before the program started, or before the state of the cluster was restored.
    """
    if change.before is None:
        return True
    return change.before.obj.get("status", {}).get("phase") in ("Failed", "Succeeded")


def _families(objects: Objects) -> tuple[str, ...]:
    """Return the families of addresses of the cluster, by its default ServiceCIDR."""
    if not objects.has(networking.SERVICE_CIDRS, "", networking.DEFAULT_CIDR):
        return (IPV4,)
    stored = objects.find(networking.SERVICE_CIDRS, "", networking.DEFAULT_CIDR)
    return tuple(IPV6 if ":" in each else IPV4 for each in stored.obj["spec"]["cidrs"])


def _annotations_differ(before: JSON, after: JSON) -> bool:
    old, new = (each["metadata"].get("annotations") or {} for each in (before, after))
    return any(old.get(each) != new.get(each) for each in (CAPACITY, PRESSURE))


def _is_same_for_others(change: Change) -> bool:
    if change.before is None:
        return False
    before, after = change.before.obj, change.after.obj
    return bool(
        before["spec"] is after["spec"]
        and before["metadata"].get("labels") == after["metadata"].get("labels")
        and ("deletionTimestamp" in before["metadata"])
        is ("deletionTimestamp" in after["metadata"])
        and is_over(before) is is_over(after)
    )


def _changes_explanation(change: Change) -> bool:
    """Tell whether the change only adds the scheduler's reason why a pod waits."""
    if change.before is None:
        return False
    before, after = change.before.obj, change.after.obj
    same = ("labels", "annotations", "deletionTimestamp")
    return bool(
        before["spec"] == after["spec"]
        and all(
            before["metadata"].get(each) == after["metadata"].get(each) for each in same
        )
        and _unexplained(before) == _unexplained(after)
    )


def _unexplained(pod: JSON) -> JSON:
    """Return the status of a pod without the scheduler's fields."""
    ours = ("conditions", "nominatedNodeName")
    return {k: v for k, v in pod.get("status", {}).items() if k not in ours}


async def _follow(watcher: Watcher, react: Callable[[Change], None]) -> None:
    try:
        while True:
            await watcher.wait()
            for change in watcher.take():
                _react(react, change)
    finally:
        watcher.close()


def _react(react: Callable[[Change], None], change: Change) -> None:
    """React to a change; a failure for one object affects no other."""
    try:
        react(change)
    except Exception as error:  # noqa: BLE001 - reported, not swallowed
        metadata = change.after.obj["metadata"]
        kind = change.after.obj["kind"]
        message = f"The nodes cannot handle {kind} {metadata['name']}"
        asyncio.get_running_loop().call_exception_handler(
            {"message": message, "exception": error}
        )
