"""Logs show what annotations and commands say; nothing else connects to a pod."""

import asyncio
import json
from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Request
from tests.clusters import Cluster
from tests.devcluster.kubelet.objects import CORE, PODS, create_pod, send
from tests.devcluster.rows import rows

pytestmark = pytest.mark.looptime

SCRIPT = ["sh", "-c", "echo one; sleep 2; echo two; sleep 2; echo three; exit 1"]


async def log(cluster: Cluster, pod: str, **query: object) -> tuple[int, str]:
    """Return the status and the log of a pod, or the message of the refusal."""
    given = tuple((name, str(value)) for name, value in query.items())
    path = f"{PODS}/{pod}/log"
    answer = await cluster.transport.request(Request("GET", path, query=given))
    text = answer.body.decode()
    return answer.status, text if answer.status == 200 else json.loads(text)["message"]


def scripted(command: list[str], **more: Any) -> list[JSON]:
    return [{"name": "c", "image": "i", "command": command, **more}]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, "one\ntwo\nthree\n"),
        ({"tailLines": 1}, "three\n"),
        ({"tailLines": 0}, ""),
        ({"tailLines": 9}, "one\ntwo\nthree\n"),
        ({"sinceSeconds": 4}, "two\nthree\n"),
        ({"sinceTime": "2026-01-01T00:00:04Z"}, "three\n"),
        ({"limitBytes": 5}, "one\nt"),
        (
            {"timestamps": "true", "tailLines": 2},
            (
                "2026-01-01T00:00:02.000000000Z two\n"
                "2026-01-01T00:00:04.000000000Z three\n"
            ),
        ),
        ({"follow": "true"}, "one\ntwo\nthree\n"),
    ],
)
async def test_a_log_is_shown_as_it_is_asked_for(
    cluster: Cluster, query: JSON, expected: str
) -> None:
    async with cluster.nodes(count=1, start_delay=0):
        await create_pod(
            cluster, "p", restartPolicy="Never", containers=scripted(SCRIPT)
        )
        await asyncio.sleep(6)
        assert await log(cluster, "p", **query) == (200, expected)


@rows("query", "message")
async def test_the_errors_of_a_request_are_reported(
    cluster: Cluster, query: JSON, message: str
) -> None:
    containers = [{"name": name, "image": "i"} for name in ("a", "b", "i")]
    async with cluster.nodes(count=1, start_delay=10):
        await create_pod(
            cluster, "p", containers=containers[:2], initContainers=containers[2:]
        )
        await asyncio.sleep(1)
        status, said = await log(cluster, "p", **query)
    assert (status in (400, 422), said) == (True, message)


async def test_an_annotation_is_the_log(cluster: Cluster) -> None:
    """Lines may have a time; one container of several may have its own."""
    annotations = {
        "devcluster/logs": "@5 ready\nstarting",
        "devcluster/logs.b": "of b",
        "devcluster/exit-code.b": "1",
        "devcluster/run-seconds.b": "1",
    }
    containers = [{"name": name, "image": "i"} for name in ("a", "b")]
    async with cluster.nodes(count=1, start_delay=0):
        await create_pod(cluster, "p", containers=containers, annotations=annotations)
        await asyncio.sleep(3)
        assert await log(cluster, "p", container="a") == (200, "starting\n")
        assert await log(cluster, "p", container="b", previous="true") == (
            200,
            "of b\n",
        )
        await asyncio.sleep(3)
        assert await log(cluster, "p", container="a") == (200, "starting\nready\n")


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


async def test_a_pod_without_a_node_has_an_empty_log(cluster: Cluster) -> None:
    """And one on a node whose kubelet is stopped cannot be asked."""
    async with cluster.nodes(count=1, start_delay=0):
        await create_pod(cluster, "waiting", nodeSelector={"a": "b"})
        await create_pod(cluster, "p")
        await asyncio.sleep(1)
        assert await log(cluster, "waiting") == (200, "")
        stopped = {"metadata": {"annotations": {"devcluster/stopped": "true"}}}
        await send(cluster, "PATCH", f"{CORE}/nodes/node-0", stopped)
        assert await log(cluster, "p") == (
            500,
            (
                "error dialing backend: dial tcp 172.18.0.2:10250: connect: connection "
                "refused"
            ),
        )
