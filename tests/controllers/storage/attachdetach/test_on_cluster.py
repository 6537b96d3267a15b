"""Volumes are attached and detached on a cluster in memory, on virtual time."""

import asyncio

import pytest

from tests.controllers.storage.attachdetach.cluster import Storage, running

pytestmark = pytest.mark.looptime

BY: str = "[attachdetach-controller]"


def succeeded(pod: str, volume: str) -> str:
    return (
        f"{pod} Normal SuccessfulAttachVolume {BY}: "
        f'AttachVolume.Attach succeeded for volume "{volume}" '
    )


def failed(pod: str, message: str) -> str:
    return f"{pod} Warning FailedAttachVolume {BY}: {message}"


async def test_a_volume_is_attached_listed_and_detached() -> None:
    """The status of the node is cleared before the attachment is deleted."""
    cluster = Storage(rbac=True)
    cluster.node("n")
    cluster.volume("a")
    async with running(cluster) as recording:
        cluster.pod("p", "n", "a")
        await asyncio.sleep(1)
        assert cluster.attachments() == [("a", "n", False)]
        assert cluster.listed("n") == []
        cluster.attached("a", "n")
        await asyncio.sleep(1)
        assert cluster.listed("n") == ["a"]
        assert cluster.events() == [succeeded("p", "a")]
        cluster.remove("pods", "p")
        await asyncio.sleep(1)
        assert cluster.attachments() == []
        assert cluster.listed("n") == []
        assert [(each.method, each.status) for each in recording.writes] == [
            ("POST", 201),
            ("PATCH", 200),
            ("PATCH", 200),
            ("DELETE", 200),
        ]


async def test_a_volume_is_not_detached_while_the_node_uses_it() -> None:
    """Not even after six minutes, if the node is ready."""
    cluster = Storage(rbac=True)
    cluster.node("n")
    cluster.volume("a")
    cluster.pod("p", "n", "a")
    async with running(cluster):
        cluster.attached("a", "n")
        cluster.in_use("n", "a")
        await asyncio.sleep(1)
        cluster.remove("pods", "p")
        await asyncio.sleep(1000)
        assert cluster.attachments() == [("a", "n", True)]
        assert cluster.listed("n") == ["a"]
        cluster.in_use("n")
        await asyncio.sleep(1)
        assert cluster.attachments() == []


@pytest.mark.parametrize(
    ("disabled", "tainted", "minutes"),
    [(False, False, 6), (True, False, None), (False, True, 0), (True, True, 0)],
)
async def test_force_is_used_after_six_minutes_or_out_of_service(
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
    """No cache shows the other's attachment yet."""
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
    """The attachment is tried again by the driver; its success is noticed at once."""
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
