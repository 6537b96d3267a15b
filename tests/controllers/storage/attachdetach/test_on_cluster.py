"""Volumes are attached and detached on a cluster in memory, on virtual time."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final
from unittest import mock

import pytest

from controller_manager.api.core.claims import CLAIMS
from controller_manager.api.core.v1 import NODES, PODS
from controller_manager.api.core.volumes import PERSISTENT_VOLUMES
from controller_manager.api.json_objects import JSON
from controller_manager.api.storage.v1 import ATTACHMENTS, CSI_DRIVERS
from controller_manager.controllers.storage.attachdetach import AttachDetachOptions
from controller_manager.controllers.storage.attachdetach.view import NodeViews
from controller_manager.controllers.storage.attachdetach.volumes import (
    attachment_name,
    csi_name,
)
from controller_manager.devcluster.scheme.statuses import forbidden
from controller_manager.options.config import Config
from tests.clusters import RecordingTransport, make_config
from tests.controllers.storage.objects import DRIVER, OF_CONTAINERS, RUNNING, Storage
from tests.runtime.silence import SilentWatches

pytestmark = pytest.mark.looptime

MANAGED: Final = {"volumes.kubernetes.io/controller-managed-attach-detach": "true"}
READY: Final = {"type": "Ready", "status": "True"}
NOT_READY: Final = {"type": "Ready", "status": "Unknown"}
OUT_OF_SERVICE: Final = {
    "key": "node.kubernetes.io/out-of-service",
    "value": "nodeshutdown",
    "effect": "NoExecute",
}


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


def name_of(volume: str = "a", node: str = "n") -> str:
    """Return the name of the attachment of a volume of the driver."""
    return attachment_name(csi_name(DRIVER, volume), node)


def of(*volumes: str, rbac: bool = True, runs: bool = True) -> Nodes:
    """Return a cluster with the node "n", and the pod "p" there with these volumes."""
    cluster = Nodes(rbac=rbac)
    cluster.node("n")
    for each in volumes:
        cluster.bound(each)
    if runs:
        cluster.runs("p", "n", *volumes)
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


def succeeded(pod: str, volume: str) -> str:
    return (
        f"{pod} Normal SuccessfulAttachVolume {BY}: "
        f'AttachVolume.Attach succeeded for volume "{volume}" '
    )


def failed(pod: str, message: str) -> str:
    return f"{pod} Warning FailedAttachVolume {BY}: {message}"


USED_BY_P1: Final = (
    'Multi-Attach error for volume "a" Volume is already used by pod(s) p1'
)


@pytest.mark.parametrize(
    ("disabled", "tainted", "minutes"),
    [(False, False, 6), (True, False, None), (False, True, 0), (True, True, 0)],
)
async def test_a_volume_is_detached_by_force_after_six_minutes_or_out_of_service(
    *, disabled: bool, tainted: bool, minutes: int | None
) -> None:
    """A node that is not ready may use the volume until then."""
    cluster = of("a")
    async with running(cluster, disable_force_detach=disabled):
        cluster.attached()
        cluster.in_use("a")
        await asyncio.sleep(1)
        cluster.edit(NODES, "n", status={"conditions": [NOT_READY]})
        cluster.remove(PODS, "p")
        if tainted:
            cluster.edit(NODES, "n", spec={"taints": [OUT_OF_SERVICE]})
        await asyncio.sleep(1)
        assert bool(cluster.attachments()) is not (minutes == 0)
        await asyncio.sleep(355)
        assert bool(cluster.attachments()) is not (minutes == 0)
        await asyncio.sleep(10)
        assert bool(cluster.attachments()) is (minutes is None)


async def test_a_pod_that_is_deleted_by_force_while_it_runs_releases_its_volume() -> (
    None
):
    """No update shows before that it ends; the node did not use the volume yet."""
    cluster = of("a")
    async with running(cluster):
        cluster.attached()
        cluster.set_status("p", containerStatuses=[RUNNING])
        await asyncio.sleep(1)
        cluster.remove(PODS, "p")
        await asyncio.sleep(1)
        assert (cluster.attachments(), cluster.listed()) == ([], [])


async def test_an_exclusive_volume_moves_when_its_node_has_released_it() -> None:
    """Users are told, and a volume for many nodes is attached to both."""
    cluster = of("a", runs=False)
    cluster.node("m")
    cluster.bound("many", accessModes=["ReadWriteMany"])
    async with running(cluster):
        cluster.runs("p1", "n", "a", "many")
        await asyncio.sleep(1)
        cluster.attached("a")
        cluster.attached("many")
        await asyncio.sleep(1)
        cluster.runs("p2", "m", "a", "many")
        await asyncio.sleep(1)
        first = [("a", "n", True), ("many", "n", True)]
        assert cluster.attachments() == sorted([*first, ("many", "m", False)])
        cluster.attached("many", "m")
        await asyncio.sleep(1)
        assert cluster.told() == [
            succeeded("p1", "a"),
            succeeded("p1", "many"),
            succeeded("p2", "many"),
            failed("p2", USED_BY_P1),
        ]
        cluster.remove(PODS, "p1")
        await asyncio.sleep(1)
        assert cluster.attachments() == [("a", "m", False), ("many", "m", True)]


async def test_two_nodes_that_want_an_exclusive_volume_at_once_get_one_attachment() -> (
    None
):
    """The cache does not show the attachment to the other node yet."""
    cluster = of("a", runs=False)
    cluster.node("m")
    async with running(cluster):
        cluster.runs("p1", "n", "a")
        cluster.runs("p2", "m", "a")
        await asyncio.sleep(1)
        assert len(cluster.attachments()) == 1


async def test_a_driver_that_fails_is_reported_with_growing_delays() -> None:
    """The driver retries; its success causes a sync at once."""
    cluster = of("a")
    async with running(cluster):
        cluster.attached(attached=False, attachError={"message": "no disk"})
        await asyncio.sleep(100)
        message = 'AttachVolume.Attach failed for volume "a" : no disk'
        assert cluster.told(counted=True) == [f"{failed('p', message)} x8"]
        cluster.attached()
        await asyncio.sleep(1)
        assert cluster.listed() == ["a"]


async def test_a_driver_that_says_nothing_is_reported_after_two_minutes() -> None:
    cluster = of("a")
    async with running(cluster):
        await asyncio.sleep(118)
        assert cluster.told() == []
        await asyncio.sleep(3)
        message = (
            'AttachVolume.Attach failed for volume "a" : timed out waiting for '
            "external-attacher of csi.example.com CSI driver to attach volume a"
        )
        assert cluster.told() == [failed("p", message)]


async def test_a_driver_that_attaches_nothing_gets_no_attachments() -> None:
    """A change of its CSIDriver counts for all nodes."""
    cluster = of("a")
    cluster.put(CSI_DRIVERS, DRIVER, spec={"attachRequired": False})
    async with running(cluster) as recording:
        await asyncio.sleep(10)
        assert recording.writes == []
        cluster.remove(CSI_DRIVERS, DRIVER)
        await asyncio.sleep(1)
        assert cluster.attachments() == [("a", "n", False)]


ISCSI: Final = {"targetPortal": "10.0.0.1", "iqn": "iqn.2026", "lun": 1}


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ({"iscsi": ISCSI}, "kubernetes.io/iscsi/10.0.0.1:iqn.2026:1"),
        ({"fc": {"targetWWNs": ["a"], "lun": 0}}, "kubernetes.io/fc/[a]:0"),
    ],
)
async def test_a_disk_without_a_driver_is_listed_at_once(
    source: JSON, name: str
) -> None:
    """Its kubelet waits for the list; an exclusive disk has one node."""
    cluster = of(runs=False)
    cluster.node("m")
    cluster.bound("a", source)
    cluster.runs("p1", "n", "a")
    async with running(cluster):
        assert (cluster.listed(), cluster.attachments()) == ([name], [])
        cluster.runs("p2", "m", "a")
        await asyncio.sleep(1)
        assert cluster.listed("m") == []
        cluster.remove(PODS, "p1")
        await asyncio.sleep(1)
        assert (cluster.listed(), cluster.listed("m")) == ([], [name])
        assert cluster.told() == [
            succeeded("p1", "a"),
            succeeded("p2", "a"),
            failed("p2", USED_BY_P1),
        ]


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
        assert cluster.told() == [succeeded("p", "ebs.csi.aws.com-vol-1")]
        cluster.remove(PODS, "p")
        await asyncio.sleep(1)
        assert cluster.attachments() == []


async def test_nodes_that_attach_by_themselves_are_left_alone() -> None:
    """They lack the annotation; the volumes of their pods stay attached."""
    cluster = of("a")
    cluster.edit(NODES, "n", metadata={"annotations": None})
    async with running(cluster) as recording:
        await asyncio.sleep(10)
        assert recording.writes == []
        cluster.edit(NODES, "n", metadata={"annotations": MANAGED})
        await asyncio.sleep(1)
        assert cluster.attachments() == [("a", "n", False)]


@pytest.mark.parametrize("kept", [True, False])
async def test_volumes_of_ended_pods_stay_where_the_node_says_so(*, kept: bool) -> None:
    cluster = of("a")
    keep = {"volumes.kubernetes.io/keep-terminated-pod-volumes": str(kept).lower()}
    cluster.edit(NODES, "n", metadata={"annotations": keep})
    async with running(cluster):
        cluster.attached()
        cluster.set_status("p", phase="Failed")
        await asyncio.sleep(1)
        assert bool(cluster.attachments()) is kept


@pytest.mark.parametrize(("statuses", "runs"), OF_CONTAINERS)
async def test_a_deleted_pod_needs_its_volumes_while_any_container_runs(
    statuses: JSON, *, runs: bool
) -> None:
    cluster = of("a")
    async with running(cluster):
        cluster.attached()
        cluster.set_status("p", containerStatuses=[RUNNING])
        cluster.remove(PODS, "p", grace=30)
        await asyncio.sleep(1)
        assert cluster.attachments() == [("a", "n", True)]
        cluster.set_status("p", **{"containerStatuses": [], **statuses})
        await asyncio.sleep(1)
        assert bool(cluster.attachments()) is runs


async def test_a_claim_that_is_bound_later_is_attached_then() -> None:
    """The pod already has a node."""
    cluster = of("a")
    cluster.edit(CLAIMS, "a", status={"phase": "Pending"})
    async with running(cluster):
        assert cluster.attachments() == []
        cluster.edit(CLAIMS, "a", status={"phase": "Bound"})
        await asyncio.sleep(1)
        assert cluster.attachments() == [("a", "n", False)]


@pytest.mark.parametrize("verifies", [True, False])
async def test_a_lost_attachment_is_made_again_after_a_minute(
    *, verifies: bool
) -> None:
    """A flag may say that a listed volume counts as attached for ever."""
    cluster = of("a")
    async with running(cluster, disable_reconcile_sync=not verifies):
        cluster.attached()
        await asyncio.sleep(1)
        cluster.remove(ATTACHMENTS, name_of())
        await asyncio.sleep(55)
        assert (cluster.attachments(), cluster.listed()) == ([], ["a"])
        await asyncio.sleep(10)
        assert bool(cluster.attachments()) is verifies
        assert cluster.listed() == ([] if verifies else ["a"])


async def test_attachments_of_other_programs_stay() -> None:
    """Their names differ from those that this controller gives."""
    cluster = of("a", runs=False)
    source = {"persistentVolumeName": "a"}
    spec = {"attacher": DRIVER, "nodeName": "n", "source": source}
    for name in ("va-e2e", "csi-" + "0" * 64):
        cluster.put(ATTACHMENTS, name, spec=spec)
    async with running(cluster) as recording:
        await asyncio.sleep(500)
        assert recording.writes == []


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


def refusing_nodes(cluster: Nodes, tried: list[str]) -> Any:
    """Refuse updates of nodes while entered."""
    update = cluster.server.objects.update

    def refuse(kind: Any, namespace: str, name: str, *more: Any, **named: Any) -> Any:
        if kind.plural == "nodes":
            tried.append(name)
            raise forbidden(kind.group, kind.plural, name, "says the webhook")
        return update(kind, namespace, name, *more, **named)

    return mock.patch.object(cluster.server.objects, "update", refuse)


async def test_a_volume_that_a_node_still_lists_is_not_detached() -> None:
    """The status cannot be written; other volumes are attached."""
    cluster = of("a")
    cluster.bound("b")
    async with running(cluster):
        cluster.attached()
        await asyncio.sleep(1)
        with refusing_nodes(cluster, []):
            cluster.remove(PODS, "p")
            cluster.runs("q", "n", "b")
            await asyncio.sleep(5)
            assert cluster.attachments() == [("a", "n", True), ("b", "n", False)]
            assert cluster.listed() == ["a"]
        await asyncio.sleep(60)
        assert (cluster.attachments(), cluster.listed()) == ([("b", "n", False)], [])


async def test_a_list_that_is_due_and_cannot_be_written_waits_for_its_backoff() -> None:
    """Its time has come, and stays; that must not sync the node without a pause."""
    cluster = of("a")
    tried = list[str]()
    async with running(cluster):
        cluster.attached()
        with refusing_nodes(cluster, tried):
            await asyncio.sleep(60)
        assert 5 < len(tried) < 25
        await asyncio.sleep(120)
        assert cluster.listed() == ["a"]


async def test_no_list_is_written_from_an_old_cache_of_its_node() -> None:
    """Since then the node has begun to use the volume, which stays attached."""
    cluster = of("a", rbac=False)
    watches = SilentWatches(cluster.transport)
    async with cluster.manager(config(), watches):
        await asyncio.sleep(1)
        cluster.attached()
        await asyncio.sleep(1)
        watches.silence("nodes")
        cluster.in_use("a")
        cluster.remove(PODS, "p")
        await asyncio.sleep(60)
        kept = ([("a", "n", True)], ["a"])
        assert (cluster.attachments(), cluster.listed()) == kept
        cluster.in_use()
        watches.speak("nodes")
        await asyncio.sleep(1)
        assert (cluster.attachments(), cluster.listed()) == ([], [])


async def test_no_volume_is_listed_whose_attachment_is_gone_unseen() -> None:
    """Its kubelet would use it. It is attached anew once the cache is up to date."""
    cluster = of("a", rbac=False)
    watches = SilentWatches(cluster.transport)
    async with cluster.manager(config(), watches):
        await asyncio.sleep(1)
        cluster.attached()
        await asyncio.sleep(0.05)
        assert cluster.listed() == []
        watches.silence("volumeattachments")
        cluster.remove(ATTACHMENTS, name_of())
        await asyncio.sleep(20)
        assert cluster.listed() == []
        watches.speak("volumeattachments")
        await asyncio.sleep(1)
        assert cluster.attachments() == [("a", "n", False)]


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


async def test_volumes_of_a_node_that_is_gone_wait_if_it_used_them() -> None:
    """They wait six minutes; volumes that it did not use are detached at once."""
    cluster = of("used", "unused")
    async with running(cluster):
        for name in ("used", "unused"):
            cluster.attached(name)
        cluster.in_use("used")
        await asyncio.sleep(1)
        cluster.remove(NODES, "n")
        await asyncio.sleep(10)
        assert len(cluster.attachments()) == 2
        cluster.remove(PODS, "p")
        await asyncio.sleep(1)
        assert cluster.attachments() == [("used", "n", True)]
        await asyncio.sleep(350)
        assert cluster.attachments() == [("used", "n", True)]
        await asyncio.sleep(20)
        assert cluster.attachments() == []


async def test_an_attachment_is_deleted_after_its_volume_is_gone() -> None:
    """The node's status never listed the volume."""
    cluster = of("a")
    async with running(cluster):
        assert cluster.attachments() == [("a", "n", False)]
        cluster.drop(PERSISTENT_VOLUMES, "a")
        cluster.drop(CLAIMS, "a")
        await asyncio.sleep(10)
        assert cluster.attachments() == [("a", "n", False)]
        cluster.remove(PODS, "p")
        await asyncio.sleep(1)
        assert cluster.attachments() == []
