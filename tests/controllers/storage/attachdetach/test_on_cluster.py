"""Volumes are attached and detached on a cluster in memory, on virtual time."""

import asyncio
from typing import Any
from unittest import mock

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.controllers.storage.attachdetach.view import NodeViews
from controller_manager.devcluster.apiserver.strategy import Deletion
from controller_manager.devcluster.scheme.statuses import forbidden
from tests.controllers.storage.attachdetach.cluster import (
    DRIVER,
    MANAGED,
    READY,
    Storage,
    config,
    running,
)
from tests.runtime.silence import SilentWatches

pytestmark = pytest.mark.looptime

BY: str = "[attachdetach-controller]"


def succeeded(pod: str, volume: str) -> str:
    return (
        f"{pod} Normal SuccessfulAttachVolume {BY}: "
        f'AttachVolume.Attach succeeded for volume "{volume}" '
    )


def failed(pod: str, message: str) -> str:
    return f"{pod} Warning FailedAttachVolume {BY}: {message}"


@pytest.mark.parametrize(
    ("disabled", "tainted", "minutes"),
    [(False, False, 6), (True, False, None), (False, True, 0), (True, True, 0)],
)
async def test_a_volume_is_detached_by_force_after_six_minutes_or_out_of_service(
    *, disabled: bool, tainted: bool, minutes: int | None
) -> None:
    """A node that is not ready may use the volume until then."""
    cluster = Storage(rbac=True)
    cluster.node("n")
    cluster.volume("a")
    cluster.pod("p", "n", "a")
    flags = {"disable_force_detach": disabled}
    async with running(cluster, **flags):
        cluster.attached("a", "n")
        cluster.in_use("n", "a")
        await asyncio.sleep(1)
        cluster.not_ready("n")
        cluster.remove("pods", "p")
        if tainted:
            cluster.taint("n")
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
    cluster = Storage(rbac=True)
    cluster.node("n")
    cluster.volume("a")
    cluster.pod("p", "n", "a")
    async with running(cluster):
        cluster.attached("a", "n")
        cluster.edit(
            "pods",
            "p",
            lambda obj: obj["status"].update(containerStatuses=[RUNNING]),
            "status",
        )
        await asyncio.sleep(1)
        cluster.remove("pods", "p")
        await asyncio.sleep(1)
        assert (cluster.attachments(), cluster.listed("n")) == ([], [])


async def test_an_exclusive_volume_moves_when_its_node_has_released_it() -> None:
    """Users are told, and a volume for many nodes is attached to both."""
    cluster = Storage(rbac=True)
    cluster.node("n1")
    cluster.node("n2")
    cluster.volume("a")
    cluster.volume("m", "ReadWriteMany")
    async with running(cluster):
        cluster.pod("p1", "n1", "a", "m")
        await asyncio.sleep(1)
        cluster.attached("a", "n1")
        cluster.attached("m", "n1")
        await asyncio.sleep(1)
        cluster.pod("p2", "n2", "a", "m")
        await asyncio.sleep(1)
        assert cluster.attachments() == [
            ("a", "n1", True),
            ("m", "n1", True),
            ("m", "n2", False),
        ]
        cluster.attached("m", "n2")
        await asyncio.sleep(1)
        assert cluster.events() == [
            succeeded("p1", "a"),
            succeeded("p1", "m"),
            succeeded("p2", "m"),
            failed(
                "p2",
                'Multi-Attach error for volume "a" Volume is already used by pod(s) p1',
            ),
        ]
        cluster.remove("pods", "p1")
        await asyncio.sleep(1)
        assert cluster.attachments() == [("a", "n2", False), ("m", "n2", True)]


async def test_two_nodes_that_want_an_exclusive_volume_at_once_get_one_attachment() -> (
    None
):
    """The cache does not show the attachment to the other node yet."""
    cluster = Storage(rbac=True)
    cluster.node("n1")
    cluster.node("n2")
    cluster.volume("a")
    async with running(cluster):
        cluster.pod("p1", "n1", "a")
        cluster.pod("p2", "n2", "a")
        await asyncio.sleep(1)
        assert len(cluster.attachments()) == 1


async def test_a_driver_that_fails_is_reported_with_growing_delays() -> None:
    """The driver retries; its success causes a sync at once."""
    cluster = Storage(rbac=True)
    cluster.node("n")
    cluster.volume("a")
    cluster.pod("p", "n", "a")
    async with running(cluster):
        cluster.attached("a", "n", attached=False, attachError={"message": "no disk"})
        await asyncio.sleep(100)
        message = 'AttachVolume.Attach failed for volume "a" : no disk'
        assert cluster.events() == [failed("p", message)]
        assert [each["count"] for each in cluster.all("events")] == [8]
        cluster.attached("a", "n")
        await asyncio.sleep(1)
        assert cluster.listed("n") == ["a"]


async def test_a_driver_that_says_nothing_is_reported_after_two_minutes() -> None:
    """The message names the driver and the volume's handle."""
    cluster = Storage(rbac=True)
    cluster.node("n")
    cluster.volume("a")
    cluster.pod("p", "n", "a")
    async with running(cluster):
        await asyncio.sleep(118)
        assert cluster.events() == []
        await asyncio.sleep(3)
        message = (
            'AttachVolume.Attach failed for volume "a" : timed out waiting for '
            "external-attacher of csi.example.com CSI driver to attach volume a"
        )
        assert cluster.events() == [failed("p", message)]


async def test_a_driver_that_attaches_nothing_gets_no_attachments() -> None:
    """Its CSIDriver says so; a change of the CSIDriver counts for all nodes."""
    cluster = Storage(rbac=True)
    cluster.node("n")
    cluster.volume("a")
    spec = {"attachRequired": False}
    cluster.add("CSIDriver", DRIVER, api="storage.k8s.io/v1", spec=spec)
    cluster.pod("p", "n", "a")
    async with running(cluster) as recording:
        await asyncio.sleep(10)
        assert recording.writes == []
        cluster.remove("csidrivers", DRIVER)
        await asyncio.sleep(1)
        assert cluster.attachments() == [("a", "n", False)]


@pytest.mark.parametrize(
    ("source", "name"),
    [
        (
            {"iscsi": {"targetPortal": "10.0.0.1", "iqn": "iqn.2026", "lun": 1}},
            "kubernetes.io/iscsi/10.0.0.1:iqn.2026:1",
        ),
        ({"fc": {"targetWWNs": ["a"], "lun": 0}}, "kubernetes.io/fc/[a]:0"),
    ],
)
async def test_a_disk_without_a_driver_is_listed_at_once(
    source: dict[str, Any], name: str
) -> None:
    """Its kubelet waits for the list; an exclusive disk has one node."""
    cluster = Storage(rbac=True)
    cluster.node("n1")
    cluster.node("n2")
    cluster.volume("a", **source)
    cluster.pod("p1", "n1", "a")
    async with running(cluster):
        assert (cluster.listed("n1"), cluster.attachments()) == ([name], [])
        cluster.pod("p2", "n2", "a")
        await asyncio.sleep(1)
        assert cluster.listed("n2") == []
        cluster.remove("pods", "p1")
        await asyncio.sleep(1)
        assert (cluster.listed("n1"), cluster.listed("n2")) == ([], [name])
        assert cluster.events() == [
            succeeded("p1", "a"),
            succeeded("p2", "a"),
            failed(
                "p2",
                'Multi-Attach error for volume "a" Volume is already used by pod(s) p1',
            ),
        ]


async def test_a_migrated_volume_that_a_pod_defines_is_attached_by_its_driver() -> None:
    """The attachment has the whole spec: there is no persistent volume."""
    cluster = Storage(rbac=True)
    cluster.node("n")
    cluster.pod("p", "n", awsElasticBlockStore={"volumeID": "vol-1"})
    async with running(cluster):
        (found,) = cluster.all("volumeattachments")
        assert found["spec"] == {
            "attacher": "ebs.csi.aws.com",
            "nodeName": "n",
            "source": {
                "inlineVolumeSpec": {
                    "accessModes": ["ReadWriteOnce"],
                    "csi": {
                        "driver": "ebs.csi.aws.com",
                        "volumeHandle": "vol-1",
                        "volumeAttributes": {"partition": "0"},
                    },
                }
            },
        }
        cluster.edit(
            "volumeattachments",
            found["metadata"]["name"],
            lambda obj: obj.update(status={"attached": True}),
            "status",
        )
        await asyncio.sleep(1)
        assert cluster.events() == [succeeded("p", "ebs.csi.aws.com-vol-1")]
        cluster.remove("pods", "p")
        await asyncio.sleep(1)
        assert cluster.attachments() == []


async def test_nodes_that_attach_by_themselves_are_left_alone() -> None:
    """They lack the annotation; the volumes of their pods stay attached."""
    cluster = Storage(rbac=True)
    cluster.node("n", annotations={})
    cluster.volume("a")
    cluster.pod("p", "n", "a")
    async with running(cluster) as recording:
        await asyncio.sleep(10)
        assert recording.writes == []
        cluster.edit(
            "nodes", "n", lambda obj: obj["metadata"].update(annotations=MANAGED)
        )
        await asyncio.sleep(1)
        assert cluster.attachments() == [("a", "n", False)]


@pytest.mark.parametrize("kept", [True, False])
async def test_volumes_of_ended_pods_stay_where_the_node_says_so(*, kept: bool) -> None:
    """The node has an annotation for this."""
    keep = {"volumes.kubernetes.io/keep-terminated-pod-volumes": "true"}
    cluster = Storage(rbac=True)
    cluster.node("n", annotations=MANAGED | (keep if kept else {}))
    cluster.volume("a")
    cluster.pod("p", "n", "a")
    async with running(cluster):
        cluster.attached("a", "n")
        cluster.edit(
            "pods", "p", lambda obj: obj["status"].update(phase="Failed"), "status"
        )
        await asyncio.sleep(1)
        assert bool(cluster.attachments()) is kept


RUNNING: JSON = {"state": {"running": {}}}
ENDED: JSON = {"state": {"terminated": {"exitCode": 0}}}
WAITING: JSON = {"state": {"waiting": {"reason": "PodInitializing"}}}


@pytest.mark.parametrize(
    ("statuses", "kept"),
    [
        ({}, False),
        ({"containerStatuses": [ENDED]}, False),
        ({"containerStatuses": [RUNNING]}, True),
        ({"containerStatuses": [WAITING], "initContainerStatuses": [RUNNING]}, True),
        ({"containerStatuses": [WAITING], "initContainerStatuses": [ENDED]}, False),
        ({"containerStatuses": [ENDED], "ephemeralContainerStatuses": [RUNNING]}, True),
    ],
)
async def test_a_deleted_pod_needs_its_volumes_while_any_container_runs(
    statuses: JSON, *, kept: bool
) -> None:
    """Init containers and those for debugging count, too."""
    cluster = Storage(rbac=True)
    cluster.node("n")
    cluster.volume("a")
    cluster.pod("p", "n", "a")
    async with running(cluster):
        cluster.attached("a", "n")
        cluster.edit(
            "pods",
            "p",
            lambda obj: obj["status"].update(containerStatuses=[RUNNING]),
            "status",
        )
        kind, namespace = cluster._kind("pods")
        cluster.server.objects.delete(kind, namespace, "p", Deletion(grace_period=30))
        await asyncio.sleep(1)
        assert cluster.attachments() == [("a", "n", True)]
        stopped = {"containerStatuses": [], **statuses}
        cluster.edit("pods", "p", lambda obj: obj["status"].update(stopped), "status")
        await asyncio.sleep(1)
        assert bool(cluster.attachments()) is kept


async def test_a_claim_that_is_bound_later_is_attached_then() -> None:
    """The pod already has a node."""
    cluster = Storage(rbac=True)
    cluster.node("n")
    cluster.volume("a")
    cluster.edit(
        "persistentvolumeclaims",
        "a",
        lambda obj: obj.update(status={"phase": "Pending"}),
        "status",
    )
    cluster.pod("p", "n", "a")
    async with running(cluster):
        assert cluster.attachments() == []
        cluster.edit(
            "persistentvolumeclaims",
            "a",
            lambda obj: obj.update(status={"phase": "Bound"}),
            "status",
        )
        await asyncio.sleep(1)
        assert cluster.attachments() == [("a", "n", False)]


@pytest.mark.parametrize("verifies", [True, False])
async def test_a_lost_attachment_is_made_again_after_a_minute(
    *, verifies: bool
) -> None:
    """A flag may say that a listed volume counts as attached for ever."""
    cluster = Storage(rbac=True)
    cluster.node("n")
    cluster.volume("a")
    cluster.pod("p", "n", "a")
    async with running(cluster, disable_reconcile_sync=not verifies):
        cluster.attached("a", "n")
        await asyncio.sleep(1)
        cluster.remove("volumeattachments", cluster.name("a", "n"))
        await asyncio.sleep(55)
        assert (cluster.attachments(), cluster.listed("n")) == ([], ["a"])
        await asyncio.sleep(10)
        assert bool(cluster.attachments()) is verifies
        assert cluster.listed("n") == ([] if verifies else ["a"])


async def test_attachments_of_other_programs_stay() -> None:
    """Their names differ from those that this controller gives."""
    cluster = Storage(rbac=True)
    cluster.node("n")
    cluster.volume("a")
    for name in ("va-e2e", "csi-" + "0" * 64):
        spec = {
            "attacher": DRIVER,
            "nodeName": "n",
            "source": {"persistentVolumeName": "a"},
        }
        cluster.add("VolumeAttachment", name, api="storage.k8s.io/v1", spec=spec)
    async with running(cluster) as recording:
        await asyncio.sleep(500)
        assert recording.writes == []


async def test_a_refused_attachment_does_not_delay_others() -> None:
    """The failure is reported, and the request is sent again."""
    cluster = Storage(rbac=True)
    cluster.node("n")
    cluster.volume("a")
    cluster.volume("b")
    kind = cluster.server.catalogue.of("storage.k8s.io/v1", "VolumeAttachment")
    assert kind is not None
    refused = cluster.name("a", "n")
    create = cluster.server.objects.create

    def refuse(kind: Any, namespace: str, obj: Any, **more: Any) -> Any:
        if obj["metadata"].get("name") == refused:
            group, plural = "storage.k8s.io", "volumeattachments"
            raise forbidden(group, plural, refused, "says the webhook")
        return create(kind, namespace, obj, **more)

    cluster.pod("p", "n", "a", "b")
    with mock.patch.object(cluster.server.objects, "create", refuse):
        async with running(cluster):
            await asyncio.sleep(10)
            assert cluster.attachments() == [("b", "n", False)]
    message = (
        'AttachVolume.Attach failed for volume "a" : kubernetes.io/csi: '
        "attacher.Attach failed: volumeattachments.storage.k8s.io "
        f'"{refused}" is forbidden: says the webhook'
    )
    assert cluster.events() == [failed("p", message)]


async def test_heartbeats_cause_no_sync() -> None:
    """A node is synced when its part about volumes changes."""
    cluster = Storage(rbac=True)
    cluster.node("n")
    cluster.volume("a")
    cluster.pod("p", "n", "a")
    with mock.patch.object(
        NodeViews, "of", autospec=True, side_effect=NodeViews.of
    ) as looks:
        async with running(cluster):
            cluster.attached("a", "n")
            await asyncio.sleep(10)
            before = looks.call_count
            for beat in range(5):
                condition = {**READY, "lastHeartbeatTime": f"2026-01-01T00:00:0{beat}Z"}
                cluster.edit(
                    "nodes",
                    "n",
                    lambda obj, now=condition: obj["status"].update(conditions=[now]),
                    "status",
                )
                await asyncio.sleep(10)
            assert looks.call_count == before


async def test_a_volume_that_a_node_still_lists_is_not_detached() -> None:
    """The status cannot be written; other volumes are attached."""
    cluster = Storage(rbac=True)
    cluster.node("n")
    cluster.volume("a")
    cluster.volume("b")
    cluster.pod("p", "n", "a")
    update = cluster.server.objects.update

    def refuse(kind: Any, namespace: str, name: str, obj: Any, *more: Any) -> Any:
        if kind.plural == "nodes":
            raise forbidden(kind.group, kind.plural, name, "says the webhook")
        return update(kind, namespace, name, obj, *more)

    async with running(cluster):
        cluster.attached("a", "n")
        await asyncio.sleep(1)
        with mock.patch.object(cluster.server.objects, "update", refuse):
            cluster.remove("pods", "p")
            cluster.pod("q", "n", "b")
            await asyncio.sleep(5)
            assert cluster.attachments() == [("a", "n", True), ("b", "n", False)]
            assert cluster.listed("n") == ["a"]
        await asyncio.sleep(60)
        assert (cluster.attachments(), cluster.listed("n")) == ([("b", "n", False)], [])


async def test_a_list_that_is_due_and_cannot_be_written_waits_for_its_backoff() -> None:
    """Its time has come, and stays; that must not sync the node without a pause."""
    cluster = Storage(rbac=True)
    cluster.node("n")
    cluster.volume("a")
    cluster.pod("p", "n", "a")
    tried = []

    def refuse(kind: Any, namespace: str, name: str, *more: Any, **named: Any) -> Any:
        tried.append((namespace, name, more, named))
        raise forbidden(kind.group, kind.plural, name, "says the webhook")

    async with running(cluster):
        cluster.attached("a", "n")
        with mock.patch.object(cluster.server.objects, "update", refuse):
            await asyncio.sleep(60)
        assert 5 < len(tried) < 25
        await asyncio.sleep(120)
        assert cluster.listed("n") == ["a"]


async def test_no_list_is_written_from_an_old_cache_of_its_node() -> None:
    """Since then the node has begun to use the volume, which stays attached."""
    cluster = Storage()
    cluster.node("n")
    cluster.volume("a")
    cluster.pod("p", "n", "a")
    watches = SilentWatches(cluster.transport)
    async with cluster.manager(config(), watches):
        await asyncio.sleep(1)
        cluster.attached("a", "n")
        await asyncio.sleep(1)
        watches.silence("nodes")
        cluster.in_use("n", "a")
        cluster.remove("pods", "p")
        await asyncio.sleep(60)
        kept = ([("a", "n", True)], ["a"])
        assert (cluster.attachments(), cluster.listed("n")) == kept
        cluster.in_use("n")
        watches.speak("nodes")
        await asyncio.sleep(1)
        assert (cluster.attachments(), cluster.listed("n")) == ([], [])


async def test_no_volume_is_listed_whose_attachment_is_gone_unseen() -> None:
    """Its kubelet would use it. It is attached anew once the cache is up to date."""
    cluster = Storage()
    cluster.node("n")
    cluster.volume("a")
    cluster.pod("p", "n", "a")
    watches = SilentWatches(cluster.transport)
    async with cluster.manager(config(), watches):
        await asyncio.sleep(1)
        cluster.attached("a", "n")
        await asyncio.sleep(0.05)
        assert cluster.listed("n") == []
        watches.silence("volumeattachments")
        cluster.remove("volumeattachments", cluster.name("a", "n"))
        await asyncio.sleep(20)
        assert cluster.listed("n") == []
        watches.speak("volumeattachments")
        await asyncio.sleep(1)
        assert cluster.attachments() == [("a", "n", False)]


async def test_volumes_are_detached_in_the_order_of_the_list() -> None:
    """So a seed of the world has the same trace in each process."""
    cluster = Storage(rbac=True)
    cluster.node("n")
    names = [f"v{number}" for number in range(9)]
    for name in names:
        cluster.volume(name)
    cluster.pod("p", "n", *names)
    async with running(cluster) as recording:
        for name in names:
            cluster.attached(name, "n")
        await asyncio.sleep(1)
        listed = cluster.listed("n")
        assert sorted(listed) == names
        recording.writes.clear()
        cluster.remove("pods", "p")
        await asyncio.sleep(5)
        assert [
            each.path.rpartition("/")[2]
            for each in recording.writes
            if each.method == "DELETE"
        ] == [cluster.name(each, "n") for each in listed]


async def test_volumes_of_a_node_that_is_gone_wait_if_it_used_them() -> None:
    """They wait six minutes; volumes that it did not use are detached at once."""
    cluster = Storage(rbac=True)
    cluster.node("n")
    for name in ("used", "unused"):
        cluster.volume(name)
        cluster.pod(name, "n", name)
    async with running(cluster):
        for name in ("used", "unused"):
            cluster.attached(name, "n")
        cluster.in_use("n", "used")
        await asyncio.sleep(1)
        cluster.remove("nodes", "n")
        await asyncio.sleep(10)
        assert len(cluster.attachments()) == 2
        cluster.remove("pods", "used")
        cluster.remove("pods", "unused")
        await asyncio.sleep(1)
        assert cluster.attachments() == [("used", "n", True)]
        await asyncio.sleep(350)
        assert cluster.attachments() == [("used", "n", True)]
        await asyncio.sleep(20)
        assert cluster.attachments() == []


async def test_an_attachment_is_deleted_after_its_volume_is_gone() -> None:
    """The node's status never listed the volume."""
    cluster = Storage(rbac=True)
    cluster.node("n")
    cluster.volume("a")
    cluster.pod("p", "n", "a")
    async with running(cluster):
        assert cluster.attachments() == [("a", "n", False)]
        for plural in ("persistentvolumes", "persistentvolumeclaims"):
            cluster.drop(plural, "a")
        await asyncio.sleep(10)
        assert cluster.attachments() == [("a", "n", False)]
        cluster.remove("pods", "p")
        await asyncio.sleep(1)
        assert cluster.attachments() == []
