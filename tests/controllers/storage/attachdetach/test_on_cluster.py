"""Volumes are attached and detached on a cluster in memory, on virtual time."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final
from unittest import mock

import pytest

from controller_manager.api.core.v1 import NODES, PODS
from controller_manager.api.storage.v1 import ATTACHMENTS
from controller_manager.controllers.storage.attachdetach import AttachDetachOptions
from controller_manager.controllers.storage.attachdetach.view import NodeViews
from controller_manager.controllers.storage.attachdetach.volumes import (
    attachment_name,
    csi_name,
)
from controller_manager.devcluster.scheme.statuses import forbidden
from controller_manager.options.config import Config
from tests.clusters import RecordingTransport, make_config
from tests.controllers.scenarios import Scenario, scenarios
from tests.controllers.storage.objects import DRIVER, CrashesAt, Storage
from tests.runtime.silence import SilentWatches

pytestmark = pytest.mark.looptime

MANAGED: Final = {"volumes.kubernetes.io/controller-managed-attach-detach": "true"}
READY: Final = {"type": "Ready", "status": "True"}


def config(**flags: Any) -> Config:
    """Return a config that runs this controller only, with its flags."""
    names = ("persistentvolume-attach-detach-controller",)
    made = make_config(controllers=names, use_service_account_credentials=True)
    options = AttachDetachOptions(**flags)
    return replace(made, controllers={AttachDetachOptions: options})


class Nodes(Storage):
    """A cluster with nodes; tests act as the kubelet and as the driver."""

    def node(self, name: str, **annotations: str) -> None:
        """Add a node that is ready and leaves attaching to the controller."""
        metadata = {"annotations": {**MANAGED, **annotations}}
        self.put(NODES, name, metadata=metadata, status={"conditions": [READY]})

    def runs(self, pod: str, node: str, *claims: str, **spec: Any) -> None:
        self.pod(pod, *claims, nodeName=node, **spec)

    def attached(self, volume: str = "a", node: str = "n", **status: Any) -> None:
        """Have the driver report an attachment; by default, that it is attached."""
        status = status or {"attached": True}
        self.edit(ATTACHMENTS, name_of(volume, node), status=status)

    def in_use(self, *volumes: str) -> None:
        """Have the kubelet of the node "n" report the volumes that it uses."""
        names = [csi_name(DRIVER, each) for each in volumes]
        self.edit(NODES, "n", status={"volumesInUse": names})

    def attachments(self) -> list[tuple[str, str, bool]]:
        """Return source, node and state of each attachment."""
        found = []
        for obj in self.all(ATTACHMENTS):
            source = obj["spec"]["source"]
            inline = source.get("inlineVolumeSpec", {}).get("csi", {})
            volume = source.get("persistentVolumeName") or inline.get("volumeHandle")
            found.append((volume, obj["spec"]["nodeName"], obj["status"]["attached"]))
        return sorted(found)

    def listed(self, node: str = "n") -> list[str]:
        """Return the handles of the volumes that a node lists as attached."""
        status = self.stored(NODES, node)["status"]
        names = [each["name"] for each in status.get("volumesAttached") or ()]
        return [each.partition("^")[2] or each for each in names]

    def serve(self, *volumes: str, runs: bool = True) -> None:
        """Add the node "n", and the pod "p" there with these volumes."""
        self.node("n")
        for each in volumes:
            self.bound(each)
        if runs:
            self.runs("p", "n", *volumes)

    def lose_attachment(self) -> None:
        self.remove(ATTACHMENTS, name_of())


def name_of(volume: str = "a", node: str = "n") -> str:
    """Return the name of the attachment of a volume of the driver."""
    return attachment_name(csi_name(DRIVER, volume), node)


def of(*volumes: str, runs: bool = True) -> Nodes:
    cluster = Nodes(rbac=True)
    cluster.serve(*volumes, runs=runs)
    return cluster


@asynccontextmanager
async def running(
    cluster: Nodes, **flags: Any
) -> AsyncGenerator[RecordingTransport, None]:
    """Run the controller while entered, as its own account, on a cluster at rest."""
    async with cluster.confined_manager(config(**flags)) as recording:
        await asyncio.sleep(1)
        yield recording


BY: Final = "[attachdetach-controller]"


def failed(pod: str, message: str) -> str:
    return f"{pod} Warning FailedAttachVolume {BY}: {message}"


@scenarios("storage/attachdetach")
async def test_volumes_are_attached_and_detached(scenario: Scenario) -> None:
    await scenario.play(Nodes, config, rbac=True)


async def test_a_migrated_volume_that_a_pod_defines_is_attached_by_its_driver() -> None:
    """The attachment has the whole spec: there is no persistent volume."""
    cluster = of(runs=False)
    ebs = {"name": "own", "awsElasticBlockStore": {"volumeID": "vol-1"}}
    cluster.runs("p", "n", volumes=[ebs])
    async with running(cluster):
        (found,) = cluster.all(ATTACHMENTS)
        csi = {
            "driver": "ebs.csi.aws.com",
            "volumeHandle": "vol-1",
            "volumeAttributes": {"partition": "0"},
        }
        inline = {"accessModes": ["ReadWriteOnce"], "csi": csi}
        assert found["spec"] == {
            "attacher": "ebs.csi.aws.com",
            "nodeName": "n",
            "source": {"inlineVolumeSpec": inline},
        }
        cluster.edit(ATTACHMENTS, found["metadata"]["name"], status={"attached": True})
        await asyncio.sleep(1)
        assert cluster.told() == [
            (
                f"p Normal SuccessfulAttachVolume {BY}: AttachVolume.Attach succeeded "
                'for volume "ebs.csi.aws.com-vol-1" '
            )
        ]
        cluster.remove(PODS, "p")
        await asyncio.sleep(1)
        assert cluster.attachments() == []


async def test_a_refused_attachment_does_not_delay_others() -> None:
    """The failure is reported, and the request is sent again."""
    cluster = of("a", "b")
    refused = name_of()
    create = cluster.server.objects.create

    def refuse(kind: Any, namespace: str, obj: Any, **more: Any) -> Any:
        if obj["metadata"].get("name") == refused:
            why = "says the webhook"
            raise forbidden(ATTACHMENTS.group, ATTACHMENTS.plural, refused, why)
        return create(kind, namespace, obj, **more)

    with mock.patch.object(cluster.server.objects, "create", refuse):
        async with running(cluster):
            assert cluster.attachments() == [("b", "n", False)]
    async with running(cluster):
        assert len(cluster.attachments()) == 2
    message = (
        'AttachVolume.Attach failed for volume "a" : kubernetes.io/csi: '
        "attacher.Attach failed: volumeattachments.storage.k8s.io "
        f'"{refused}" is forbidden: says the webhook'
    )
    assert cluster.told() == [failed("p", message)]


async def test_heartbeats_cause_no_sync() -> None:
    """A node is synced when its part about volumes changes."""
    cluster = of("a")
    looking = mock.patch.object(
        NodeViews, "of", autospec=True, side_effect=NodeViews.of
    )
    with looking as looks:
        async with running(cluster):
            cluster.attached()
            await asyncio.sleep(10)
            before = looks.call_count
            for beat in range(5):
                condition = {**READY, "lastHeartbeatTime": f"2026-01-01T00:00:0{beat}Z"}
                cluster.edit(NODES, "n", status={"conditions": [condition]})
                await asyncio.sleep(10)
            assert looks.call_count == before


async def test_volumes_are_detached_in_the_order_of_the_list() -> None:
    """So a seed of the world has the same trace in each process."""
    names = [f"v{number}" for number in range(9)]
    cluster = of(*names)
    async with running(cluster) as recording:
        for name in names:
            cluster.attached(name)
        await asyncio.sleep(1)
        listed = cluster.listed()
        assert sorted(listed) == names
        recording.writes.clear()
        cluster.remove(PODS, "p")
        await asyncio.sleep(5)
        deleted = [
            each.path.rpartition("/")[2]
            for each in recording.writes
            if each.method == "DELETE"
        ]
        assert deleted == [name_of(each) for each in listed]


async def test_a_node_that_went_while_no_process_ran_keeps_no_volume() -> None:
    """Nobody knows what it used, so the volume waits for six minutes."""
    cluster = of("a")
    async with running(cluster):
        cluster.attached()
    cluster.remove(PODS, "p")
    cluster.remove(NODES, "n")
    async with running(cluster):
        await asyncio.sleep(370)
        assert cluster.attachments() == []


async def test_a_new_process_with_an_old_cache_of_a_node_detaches_no_used_volume() -> (
    None
):
    cluster = Nodes()
    cluster.serve("a", runs=False)
    watches = SilentWatches(cluster.transport)
    async with cluster.manager(config(), watches):
        await asyncio.sleep(1)
        watches.silence("nodes")
        cluster.in_use("a")
        source = {"persistentVolumeName": "a"}
        spec = {"attacher": DRIVER, "nodeName": "n", "source": source}
        cluster.put(ATTACHMENTS, name_of(), spec=spec, status={"attached": True})
        await asyncio.sleep(60)
        assert cluster.attachments() == [("a", "n", True)]
        cluster.in_use()
        watches.speak("nodes")
        await asyncio.sleep(1)
        assert cluster.attachments() == []


async def _drive(cluster: Nodes) -> None:
    """Have the driver attach what is asked for."""
    await asyncio.sleep(2)
    for source, node, is_attached in cluster.attachments():
        if not is_attached:
            cluster.attached(source, node)
    await asyncio.sleep(2)


@pytest.mark.parametrize("stores", [False, True])
@pytest.mark.parametrize("write", range(1, 7))
async def test_a_move_that_is_cut_off_at_any_write_is_completed(
    write: int, *, stores: bool
) -> None:
    """Six writes: two attach, two detach, and two attach to the other node."""
    cluster = Nodes()
    cluster.serve("a")
    cluster.node("m")
    crashing = CrashesAt(cluster.transport, left=write, stores=stores)
    for transport in (crashing, cluster.transport):
        async with cluster.manager(config(), transport):
            await _drive(cluster)
            if "p" in cluster.names(PODS):
                cluster.remove(PODS, "p")
                cluster.runs("q", "m", "a")
            await _drive(cluster)
    assert crashing.left == -1
    assert cluster.attachments() == [("a", "m", True)]
    assert (cluster.listed("n"), cluster.listed("m")) == ([], ["a"])
