"""A pod that writes more than its limits of local storage is evicted."""

import asyncio
from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from tests.clusters import Cluster
from tests.devcluster.nodes.objects import create_pod, events, status_of

pytestmark = pytest.mark.looptime

TOTAL = "Pod ephemeral local storage usage exceeds the total limit of containers 5Mi. "


def writer(command: str, limit: str = "", name: str = "c", **more: Any) -> JSON:
    """Return a container that runs a script, with a limit of its local storage."""
    resources = {"limits": {"ephemeral-storage": limit}} if limit else {}
    return {
        "name": name,
        "image": "busybox",
        "command": ["sh", "-c", command],
        "resources": resources,
        "volumeMounts": [{"name": "cache", "mountPath": "/cache"}],
        **more,
    }


def cache(**source: str) -> JSON:
    return {"name": "cache", "emptyDir": source}


TEN = "dd if=/dev/zero of={} bs=1M count=10; sleep infinity"


@pytest.mark.parametrize(
    ("containers", "volume", "message"),
    [
        ([writer(TEN.format("file"), "5Mi")], cache(), TOTAL),
        (
            [writer(TEN.format("/cache/file"))],
            cache(sizeLimit="9Mi"),
            'Usage of EmptyDir volume "cache" exceeds the limit "9Mi". ',
        ),
        (
            [
                writer("sleep infinity", "40Mi", name="other"),
                writer("fallocate -l 6M /a; fallocate -l 6M b; sleep inf", "10Mi"),
            ],
            cache(),
            'Container c exceeded its local ephemeral storage limit "10Mi". ',
        ),
        (
            [
                writer(TEN.format("x"), "2Mi", workingDir="/cache"),
                writer("sleep infinity", "3Mi", name="other"),
            ],
            cache(),
            TOTAL,
        ),
        ([writer(TEN.format("file"))], cache(sizeLimit="9Mi"), ""),
        ([writer(TEN.format("file"), "10Mi")], cache(), ""),
        ([writer(TEN.format("/cache/f"), "5Mi")], cache(medium="Memory"), ""),
        ([writer("dd if=/dev/zero of=f; sleep inf", "5Mi")], cache(), ""),
    ],
)
async def test_files_count_against_limits(
    cluster: Cluster, containers: list[JSON], volume: JSON, message: str
) -> None:
    """Of their volume, of the pod, or of their container."""
    async with cluster.nodes(count=1, start_delay=0, details=True):
        await create_pod(cluster, "p", containers=containers, volumes=[volume])
        await asyncio.sleep(9)
        assert (await status_of(cluster, "p"))["phase"] == "Running"
        await asyncio.sleep(2)
        status = await status_of(cluster, "p")
        if not message:
            assert status["phase"] == "Running"
            return
        assert (status["phase"], status["reason"], status["message"]) == (
            "Failed",
            "Evicted",
            message,
        )
        assert {
            each["state"]["terminated"]["exitCode"]
            for each in status["containerStatuses"]
        } == {137}
        # The fault is the pod's own: this is no disruption.
        assert "DisruptionTarget" not in {each["type"] for each in status["conditions"]}
        assert f"p Warning Evicted: {message}" in await events(cluster)


async def test_a_container_leaves_its_files_in_volumes(cluster: Cluster) -> None:
    """Those outside of volumes are gone when it ends."""
    script = "fallocate -l 4M /a; fallocate -l 4M /cache/a; sleep 2"
    second = "sleep 5; fallocate -l 4M /cache/b; fallocate -l 4M /b; sleep infinity"
    containers = [writer(script, "13Mi", name="a"), writer(second, name="b")]
    async with cluster.nodes(count=1, start_delay=0):
        volumes = [cache(sizeLimit="7Mi")]
        options: JSON = {"restartPolicy": "Never", "volumes": volumes}
        await create_pod(cluster, "p", containers=containers, **options)
        volumes[0]["emptyDir"] = {}
        await create_pod(cluster, "q", containers=containers, **options)
        await asyncio.sleep(16)
        full, other = await status_of(cluster, "p"), await status_of(cluster, "q")
        assert full["message"] == (
            'Usage of EmptyDir volume "cache" exceeds the limit "7Mi". '
        )
        assert other["phase"] == "Running"
