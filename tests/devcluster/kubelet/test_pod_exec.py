"""``kubectl exec`` of simple commands; upstream's e2e breaks probes with them."""

import asyncio
import json
from typing import Any, Final

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


AGNHOST: Final = {
    "name": "webserver",
    "image": "e2e-test-images/agnhost:2.55",
    "args": ["test-webserver"],
}


@pytest.mark.parametrize(
    ("container", "asked", "page"),
    [(httpd(), "/index.html", PAGE), (AGNHOST, "/localhost.crt", "/localhost.crt")],
    ids=["httpd", "agnhost"],
)
async def test_a_page_that_is_moved_away_fails_its_probe(
    cluster: Cluster, container: JSON, asked: str, page: str
) -> None:
    probe = {**PROBE, "httpGet": {"path": asked, "port": 80}}
    async with cluster.nodes(count=1, start_delay=0):
        await create_pod(
            cluster, "p", containers=[{**container, "readinessProbe": probe}]
        )
        seen = [await ready(cluster, "p")]
        folder, _, name = page.rpartition("/")
        for script in (
            f"mv -v {page} /tmp/ || true",
            f"mv -v /tmp/{name} {folder}/ || true",
        ):
            (end,) = await execute(cluster, "p", "/bin/sh", "-x", "-c", script)
            assert json.loads(end[1:])["status"] == "Success"
            seen.append(await ready(cluster, "p"))
    assert seen == ["True", "False", "True"]


HEALTH: Final = {"path": "/healthz", "port": 8080}


@pytest.mark.parametrize(
    ("server", "asked", "found"),
    [
        ("test-webserver", {"httpGet": {"path": "/", "port": 80}}, ["True", "True"]),
        ("test-webserver", {"httpGet": {"path": "/", "port": 81}}, ["False", "False"]),
        ("grpc-health-checking", {"grpc": {"port": 5000}}, ["True", "True"]),
        ("grpc-health-checking", {"grpc": {"port": 2333}}, ["False", "False"]),
        ("liveness", {"httpGet": HEALTH}, ["True", "False"]),
        ("liveness", {"httpGet": {**HEALTH, "path": "/started"}}, ["True", "True"]),
    ],
)
async def test_the_servers_of_upstreams_tests_answer_probes(
    cluster: Cluster, server: str, asked: JSON, found: list[str]
) -> None:
    probe = {**asked, "periodSeconds": 1, "failureThreshold": 1}
    container = {**AGNHOST, "args": [server], "readinessProbe": probe}
    async with cluster.nodes(count=1, start_delay=0):
        await create_pod(cluster, "p", containers=[container])
        seen = [await ready(cluster, "p")]
        await asyncio.sleep(10)
        assert [*seen, await ready(cluster, "p")] == found


async def test_a_paused_pod_continues_once_its_file_is_there(cluster: Cluster) -> None:
    test = ["test", "-f", "/data/statefulset-continue"]
    probe = {"exec": {"command": test}, "periodSeconds": 1, "failureThreshold": 1}
    async with cluster.nodes(count=1, start_delay=0):
        await create_pod(cluster, "p", containers=[httpd(readinessProbe=probe)])
        assert await ready(cluster, "p") == "False"
        command = "dd if=/dev/zero of=/data/statefulset-continue bs=1 count=1"
        await execute(cluster, "p", *command.split())
        assert await ready(cluster, "p") == "True"


async def test_a_command_prints_and_ends_with_its_code(cluster: Cluster) -> None:
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
    ended = httpd(command=["false"])
    async with cluster.nodes(count=1, start_delay=0):
        await create_pod(cluster, "p", restartPolicy="Never", containers=[ended])
        await asyncio.sleep(1)
        (found,) = await execute(cluster, "p", "true")
    assert json.loads(found)["message"] == (
        'unable to upgrade connection: container not found ("webserver")'
    )


async def test_a_file_is_found_through_an_expanded_sub_path(cluster: Cluster) -> None:
    mounts = [
        {"name": "v", "mountPath": "/part", "subPathExpr": "$(A)/$(B)"},
        {"name": "v", "mountPath": "/whole"},
    ]
    variables = [{"name": "A", "value": "a"}, {"name": "B", "value": "b"}]
    async with cluster.nodes(count=1, start_delay=0):
        await create_pod(
            cluster,
            "p",
            containers=[httpd(volumeMounts=mounts, env=variables)],
            volumes=[{"name": "v", "emptyDir": {}}],
        )
        await asyncio.sleep(1)
        ends = []
        for command in ("touch /whole/a/b/log", "test -f /part/log", "test -f /part/x"):
            (end,) = await execute(cluster, "p", *command.split())
            ends.append(json.loads(end[1:])["status"])
    assert ends == ["Success", "Success", "Failure"]
