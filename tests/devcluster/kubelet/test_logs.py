"""Logs show what annotations and commands say; nothing else connects to a pod."""

import asyncio
from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Request
from tests.clusters import Cluster
from tests.devcluster.kubelet.objects import PODS, create_pod
from tests.devcluster.requests import send

pytestmark = pytest.mark.looptime

SCRIPT = ["sh", "-c", "echo one; sleep 2; echo two; sleep 2; echo three; exit 1"]


def scripted(command: list[str], **more: Any) -> list[JSON]:
    return [{"name": "c", "image": "i", "command": command, **more}]


async def test_a_log_is_followed_until_its_container_ends(cluster: Cluster) -> None:
    """Each line comes in its time; deletion ends the log of a pod that runs on."""
    loop = asyncio.get_running_loop()

    async def follow(pod: str) -> list[tuple[float, bytes]]:
        query = (("follow", "true"),)
        request = Request("GET", f"{PODS}/{pod}/log", query=query, timeout=60)
        stream = await cluster.transport.stream(request)
        return [(round(loop.time()), chunk) async for chunk in stream.chunks()]

    async with cluster.nodes(count=1, start_delay=0, grace_scale=0):
        await create_pod(
            cluster, "p", restartPolicy="Never", containers=scripted(SCRIPT)
        )
        await create_pod(cluster, "forever", annotations={"devcluster/logs": "hello"})
        await asyncio.sleep(1)
        following = [asyncio.create_task(follow(pod)) for pod in ("p", "forever")]
        await asyncio.sleep(9)
        await send(cluster, "DELETE", f"{PODS}/forever")
        of_script, of_forever = await asyncio.gather(*following)
    assert of_script == [(1, b"one\n"), (2, b"two\n"), (4, b"three\n")]
    assert of_forever == [(1, b"hello\n")]
