"""``kubectl exec`` of simple commands; upstream's e2e breaks probes with them."""

import asyncio
import json
from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Request, Response
from controller_manager.devcluster.apiserver.responses import Upgrade
from tests.clusters import TOKEN, Cluster
from tests.devcluster.kubelet.objects import PODS, condition, create_pod, status_of

pytestmark = pytest.mark.looptime

PROTOCOL = "v5.channel.k8s.io"
PAGE = "/usr/local/apache2/htdocs/index.html"
PROBE = {
    "httpGet": {"path": "/index.html", "port": 80},
    "periodSeconds": 1,
    "failureThreshold": 1,
}


def httpd(**more: Any) -> JSON:
    """Return a web server."""
    return {"name": "webserver", "image": "e2e-test-images/httpd:2.4", **more}


class Client:
    """The client's end of a websocket."""

    def __init__(self) -> None:
        self.messages: list[bytes] = []

    async def receive(self) -> bytes:
        return b""

    async def send(self, data: bytes) -> None:
        self.messages.append(data)


async def execute(
    cluster: Cluster, name: str, *command: str, protocol: str = PROTOCOL
) -> list[bytes]:
    """Execute a command in a pod; return the messages, or the refusal."""
    request = Request(
        "GET",
        f"{PODS}/{name}/exec",
        query=(("stdout", "true"), *(("command", each) for each in command)),
        headers={
            "authorization": f"Bearer {TOKEN}",
            "upgrade": "websocket",
            "sec-websocket-protocol": protocol,
        },
    )
    answer = await cluster.server.handle(request)
    if isinstance(answer, Response):
        return [answer.body]
    assert isinstance(answer, Upgrade)
    assert answer.subprotocol == protocol
    client = Client()
    await answer.serve(client)
    return client.messages


async def ready(cluster: Cluster, name: str) -> str:
    """Return whether a pod is ready, after its probes had time."""
    await asyncio.sleep(2)
    return condition(await status_of(cluster, name), "Ready")[0]


async def test_a_page_that_is_moved_away_fails_its_probe(cluster: Cluster) -> None:
    """Until it is moved back."""
    async with cluster.nodes(count=1, start_delay=0):
        await create_pod(cluster, "p", containers=[httpd(readinessProbe=PROBE)])
        seen = [await ready(cluster, "p")]
        for script in (
            f"mv -v {PAGE} /tmp/ || true",
            f"mv -v /tmp/index.html {PAGE.removesuffix('index.html')} || true",
        ):
            (end,) = await execute(cluster, "p", "/bin/sh", "-x", "-c", script)
            assert json.loads(end[1:])["status"] == "Success"
            seen.append(await ready(cluster, "p"))
    assert seen == ["True", "False", "True"]


async def test_a_paused_pod_continues_once_its_file_is_there(cluster: Cluster) -> None:
    """As upstream's e2e pauses and resumes the pods of a stateful set."""
    test = ["test", "-f", "/data/statefulset-continue"]
    probe = {"exec": {"command": test}, "periodSeconds": 1, "failureThreshold": 1}
    async with cluster.nodes(count=1, start_delay=0):
        await create_pod(cluster, "p", containers=[httpd(readinessProbe=probe)])
        assert await ready(cluster, "p") == "False"
        command = "dd if=/dev/zero of=/data/statefulset-continue bs=1 count=1"
        await execute(cluster, "p", *command.split())
        assert await ready(cluster, "p") == "True"


async def test_a_command_prints_and_ends_with_its_code(cluster: Cluster) -> None:
    """A message for each line, and a Status at the end."""
    async with cluster.nodes(count=1, start_delay=0):
        await create_pod(cluster, "p", containers=[httpd()])
        await asyncio.sleep(1)
        script = "echo one; sleep 2; echo two; exit 3"
        found = await execute(cluster, "p", "sh", "-c", script)
    assert found[:-1] == [b"\x01one\n", b"\x01two\n"]
    assert found[-1][:1] == b"\x03"
    assert json.loads(found[-1][1:]) == {
        "metadata": {},
        "status": "Failure",
        "message": "command terminated with non-zero exit code: error executing "
        "command [sh -c echo one; sleep 2; echo two; exit 3], exit code 3",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": "3"}]},
    }


@pytest.mark.parametrize(
    ("command", "protocol", "why"),
    [
        (["nginx"], PROTOCOL, b"nothing can be executed"),
        (["cat", "/etc/hosts"], PROTOCOL, b"nothing can be executed"),
        (["sleep", "infinity"], PROTOCOL, b"nothing can be executed"),
        (["true"], "", b"unable to upgrade: sec-websocket-protocol must be one of"),
    ],
)
async def test_other_commands_are_refused(
    cluster: Cluster, command: list[str], protocol: str, why: bytes
) -> None:
    """The output would be made up, or the client does not speak websockets."""
    async with cluster.nodes(count=1, start_delay=0):
        await create_pod(cluster, "p", containers=[httpd()])
        await asyncio.sleep(1)
        (found,) = await execute(cluster, "p", *command, protocol=protocol)
    assert why in found


async def test_nothing_is_executed_in_a_container_that_does_not_run(
    cluster: Cluster,
) -> None:
    """The message is that of a kubelet."""
    ended = httpd(command=["false"])
    async with cluster.nodes(count=1, start_delay=0):
        await create_pod(cluster, "p", restartPolicy="Never", containers=[ended])
        await asyncio.sleep(1)
        (found,) = await execute(cluster, "p", "true")
    assert json.loads(found)["message"] == (
        'unable to upgrade connection: container not found ("webserver")'
    )
