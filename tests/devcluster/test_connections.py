"""Exec, port-forward and proxies over the network, as clients use them."""

import asyncio
import json
import ssl
import struct
import zlib
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web
from kubernetes_asyncio import client
from kubernetes_asyncio.stream import WsApiClient

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.proxying import HOW
from controller_manager.devcluster.spdy import DICTIONARY
from controller_manager.devcluster.testing import ClusterSettings, DevelopmentCluster
from tests.devcluster.testing.calls import Caller
from tests.devcluster.testing.test_faults import wait_until

CORE = "/api/v1/namespaces/default"
NOTHING_RUNS = "the development cluster runs no containers"
ANSWERS = """
- command: cat /etc/hostname
  stdout: "web\\n"
- command: [sh, -c, exit 3]
  stderr: "no"
  exitCode: 3
"""


@pytest.fixture(scope="module")
def streams() -> Iterator[DevelopmentCluster]:
    """Run a cluster with a pod whose container answers two commands."""
    settings = ClusterSettings(nodes=1, controllers=(), pod_start_delay=0)
    with DevelopmentCluster(settings) as cluster:
        caller = Caller(cluster.kubeconfig)
        pods: tuple[tuple[str, JSON], ...] = (
            ("web", {"devcluster/exec": ANSWERS}),
            ("plain", {}),
            ("speaking", {"devcluster/logs": "one\n@1 two"}),
            ("wrong", {"devcluster/exec": "cat", "devcluster/forward": "10.0.0.1:80"}),
        )
        for name, notes in pods:
            metadata = {"name": name, "annotations": notes, "labels": {"app": name}}
            spec = {"containers": [{"name": "c", "image": "i"}]}
            caller.send("POST", f"{CORE}/pods", {"metadata": metadata, "spec": spec})
            path = f"{CORE}/pods/{name}"
            wait_until(lambda path=path: is_running(caller, path))  # type: ignore[misc]
        about = {
            "selector": {"app": "web"},
            "ports": [{"port": 8080, "targetPort": 80}],
        }
        service = {"metadata": {"name": "web"}, "spec": about}
        assert caller.send("POST", f"{CORE}/services", service).status == 201
        yield cluster


def is_running(caller: Caller, path: str) -> bool:
    phase = caller.get(path).body["status"]["phase"]
    return bool(phase == "Running")


async def _page(request: web.BaseRequest) -> web.StreamResponse:
    """Show what a program gets."""
    if request.path == "/old":
        return web.Response(status=302, headers={"Location": "/new?a=b"})
    shown = {
        "method": request.method,
        "path": request.path_qs,
        "body": await request.text(),
        "has_token": "Authorization" in request.headers,
    }
    return web.json_response(shown, headers={"X-Program": "1"})


@pytest_asyncio.fixture
async def program() -> AsyncGenerator[int, None]:
    """Run a program on this machine; return its port."""
    runner = web.ServerRunner(web.Server(_page), shutdown_timeout=0.01)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield runner.addresses[0][1]
    await runner.cleanup()


def annotate(cluster: DevelopmentCluster, kind: str, name: str, text: str) -> None:
    """Set the annotation that names programs."""
    caller = Caller(cluster.kubeconfig)
    path = f"{CORE}/{kind}/{name}"
    obj = caller.get(path).body
    obj["metadata"].setdefault("annotations", {})["devcluster/forward"] = text
    assert caller.send("PUT", path, obj).status == 200


async def executed(cluster: DevelopmentCluster, pod: str, *command: str) -> Any:
    """Execute a command by kubernetes_asyncio; return its output."""
    async with cluster.api_client() as plain, WsApiClient(plain.configuration) as api:
        words: Any = [*command]
        return await client.CoreV1Api(api).connect_get_namespaced_pod_exec(
            pod, "default", command=words, stdout=True, stderr=True
        )


async def test_a_client_gets_the_answer_of_the_annotation(
    streams: DevelopmentCluster,
) -> None:
    assert await executed(streams, "web", "cat", "/etc/hostname") == "web\n"
    assert await executed(streams, "web", "sh", "-c", "exit 3") == "no"


@asynccontextmanager
async def socket_of(
    cluster: DevelopmentCluster, path: str, protocol: str
) -> AsyncGenerator[aiohttp.ClientWebSocketResponse, None]:
    """Open a websocket as the administrator, while entered."""
    caller = Caller(cluster.kubeconfig)
    async with (
        aiohttp.ClientSession(headers=caller.headers("tests")) as session,
        session.ws_connect(
            cluster.url + path, protocols=(protocol,), ssl=caller.context
        ) as socket,
    ):
        assert socket.protocol == protocol
        connection = socket._response.connection
        assert connection is not None
        transport = connection.transport
        yield socket
        # The end of TLS would come after the test, whose loop is closed then.
        assert transport is not None
        transport.abort()
        await asyncio.sleep(0)


@pytest.mark.parametrize("protocol", ["v5.channel.k8s.io", "v4.channel.k8s.io"])
async def test_the_exit_code_comes_last(
    streams: DevelopmentCluster, protocol: str
) -> None:
    """As a Status in a channel of its own."""
    query = "?command=sh&command=-c&command=exit 3&stdout=true&stderr=true"
    path = f"{CORE}/pods/web/exec{query}"
    async with socket_of(streams, path, protocol) as socket:
        messages = [each.data async for each in socket]
    assert messages[0] == b"\2no"
    status = json.loads(messages[1][1:])
    assert (messages[1][0], status["reason"], status["details"]) == (
        3,
        "NonZeroExitCode",
        {"causes": [{"reason": "ExitCode", "message": "3"}]},
    )
    assert len(messages) == 2


async def test_an_old_protocol_has_no_status(streams: DevelopmentCluster) -> None:
    """An error is a text in the channel of errors; a success has none."""
    protocol = "channel.k8s.io"
    for command, expected in (
        ("command=cat&command=/etc/hostname", [b"\1web\n"]),
        ("command=sh&command=-c&command=exit 3", [b"\3command terminated with non-"]),
    ):
        path = f"{CORE}/pods/web/exec?{command}&stdout=1"
        async with socket_of(streams, path, protocol) as socket:
            messages = [each.data async for each in socket]
        assert [each[:29] for each in messages] == expected


async def test_a_log_comes_over_a_websocket(streams: DevelopmentCluster) -> None:
    """Its end is the end of the connection; a followed log has none."""
    protocol = "binary.k8s.io"
    path = f"{CORE}/pods/speaking/log?limitBytes=4"
    async with socket_of(streams, path, protocol) as socket, asyncio.timeout(10):
        assert [each.data async for each in socket] == [b"one\n"]
    path = f"{CORE}/pods/speaking/log?follow=true"
    async with socket_of(streams, path, protocol) as socket, asyncio.timeout(10):
        assert (await socket.receive_bytes())[:4] == b"one\n"


def refused(cluster: DevelopmentCluster, path: str) -> tuple[int, str]:
    found = Caller(cluster.kubeconfig).get(CORE + path)
    return found.status, found.body["message"]


def test_a_command_without_an_answer_is_refused(streams: DevelopmentCluster) -> None:
    """The refusal names the annotation; so does one that cannot be read."""
    code, message = refused(streams, "/pods/web/exec?command=ls&command=-l")
    begin = (
        f'{NOTHING_RUNS}: nothing can be executed in pod "web", and no file copied, '
        'unless the annotation devcluster/exec has an answer to "ls -l"; '
    )
    assert (code, message[: len(begin)]) == (501, begin)
    code, message = refused(streams, "/pods/wrong/exec?command=ls")
    assert (code, message) == (
        400,
        (
            "annotation devcluster/exec: must be a YAML list of answers with command, "
            'and stdout, stderr or exitCode, such as "[{command: date, stdout: '
            "today}]\" (Expected `array`, got `str`), it is 'cat'"
        ),
    )


def test_a_client_must_ask_for_an_upgrade(streams: DevelopmentCluster) -> None:
    """A request of another kind cannot execute."""
    path = "/pods/web/exec?command=cat&command=/etc/hostname"
    assert refused(streams, path) == (400, "Upgrade request required")


def test_a_port_without_an_annotation_is_refused(streams: DevelopmentCluster) -> None:
    words = {
        "/pods/plain/portforward": 'no port of pod "plain" can be forwarded',
        "/pods/plain/proxy/": 'nothing listens in pod "plain"',
    }
    for path, what in words.items():
        assert refused(streams, path) == (501, f"{NOTHING_RUNS}: {what}; {HOW}")


def test_only_this_machine_can_be_named(streams: DevelopmentCluster) -> None:
    """A test must not reach any other by mistake."""
    assert refused(streams, "/pods/wrong/proxy/") == (
        400,
        (
            "annotation devcluster/forward: must be an address of this machine, such "
            'as "127.0.0.1:8080", or several by port, such as '
            '"80=127.0.0.1:8080,metrics=127.0.0.1:9090"; only loopback addresses are '
            "allowed, it is '10.0.0.1:80'"
        ),
    )


async def test_proxies_pass_requests_on(
    streams: DevelopmentCluster, program: int
) -> None:
    """Of pods and of services, with all but the credentials."""
    annotate(streams, "pods", "web", f"80=127.0.0.1:{program}")
    caller = Caller(streams.kubeconfig)
    for path in ("pods/web:80", "services/web:8080", "services/http:web:8080"):
        found = await asyncio.to_thread(
            caller.send, "POST", f"{CORE}/{path}/proxy/a/b?c=d", {"e": 1}
        )
        assert (found.status, found.headers["x-program"], found.body) == (
            200,
            "1",
            {
                "method": "POST",
                "path": "/a/b?c=d",
                "body": '{"e": 1}',
                "has_token": False,
            },
        )


async def test_a_redirect_stays_in_the_proxy(
    streams: DevelopmentCluster, program: int
) -> None:
    """A client follows it through the API server."""
    annotate(streams, "services", "web", f"127.0.0.1:{program}")
    caller, prefix = Caller(streams.kubeconfig), f"{CORE}/services/web/proxy"
    async with aiohttp.ClientSession(headers=caller.headers("tests")) as session:
        for path, location in (("/old", f"{prefix}/new?a=b"), ("", f"{prefix}/")):
            async with session.get(
                streams.url + prefix + path, ssl=caller.context, allow_redirects=False
            ) as answer:
                assert answer.headers["Location"] == location


async def test_a_program_that_does_not_run_is_named(
    streams: DevelopmentCluster,
) -> None:
    annotate(streams, "services", "web", "8080=127.0.0.1:1")
    code, message = await asyncio.to_thread(
        refused, streams, "/services/web:8080/proxy/"
    )
    why = "dial tcp 127.0.0.1:1: connect: connection refused"
    assert (code, message) == (503, f"error trying to reach service: {why}")


async def test_a_port_is_forwarded_by_channels(
    streams: DevelopmentCluster, program: int
) -> None:
    """As the clients of other languages do; the first messages are the port."""
    annotate(streams, "pods", "web", f"127.0.0.1:{program}")
    path = f"{CORE}/pods/web/portforward?ports=80"
    port, answer = struct.pack("<H", 80), b""
    async with socket_of(streams, path, "v4.channel.k8s.io") as socket:
        first = [await socket.receive_bytes() for _ in range(2)]
        assert first == [b"\0" + port, b"\1" + port]
        await socket.send_bytes(b"\0GET /x HTTP/1.0\r\n\r\n")
        async for message in socket:
            assert message.data[0] == 0
            answer += message.data[1:]
    assert b'"path": "/x"' in answer


@pytest.mark.parametrize("spdy", [True, False])
async def test_a_port_is_forwarded_by_streams(
    streams: DevelopmentCluster, program: int, spdy: bool
) -> None:
    annotate(streams, "pods", "web", f"127.0.0.1:{program}")
    frames = _streams_of("80") + _data(3, b"GET /y HTTP/1.0\r\n\r\n")
    path = f"{CORE}/pods/web/portforward"
    answer = await (_raw if spdy else _tunnelled)(streams, path, frames)
    assert b'"path": "/y"' in answer


def _streams_of(port: str) -> bytes:
    """Return the frames that open the streams of a connection."""
    deflate, frames = zlib.compressobj(zdict=DICTIONARY), b""
    for number, kind in ((1, "error"), (3, "data")):
        headers = {"streamtype": kind, "port": port, "requestid": "0"}
        block = struct.pack(">I", len(headers))
        for text in (each for pair in headers.items() for each in pair):
            block += struct.pack(">I", len(text)) + text.encode()
        packed = deflate.compress(block) + deflate.flush(zlib.Z_SYNC_FLUSH)
        payload = struct.pack(">IIH", number, 0, 0) + packed
        frames += struct.pack(">HHI", 0x8003, 1, len(payload)) + payload
    return frames


def _data(number: int, data: bytes) -> bytes:
    return struct.pack(">II", number, len(data)) + data


async def _raw(cluster: DevelopmentCluster, path: str, frames: bytes) -> bytes:
    """Upgrade a connection to SPDY; return all that the server sends."""
    caller = Caller(cluster.kubeconfig)
    host, _, port = cluster.url.removeprefix("https://").partition(":")
    context: ssl.SSLContext = caller.context
    reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
    lines = [
        f"POST {path} HTTP/1.1",
        f"Host: {host}",
        f"Authorization: {caller.headers('')['Authorization']}",
        "Connection: Upgrade",
        "Upgrade: SPDY/3.1",
        "X-Stream-Protocol-Version: portforward.k8s.io",
        "Content-Length: 0",
    ]
    writer.write("".join(f"{line}\r\n" for line in (*lines, "")).encode())
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 101 Switching Protocols\r\n")
    assert b"X-Stream-Protocol-Version: portforward.k8s.io\r\n" in head
    writer.write(frames)
    answer = b""
    async with asyncio.timeout(10):
        while b'"/y"' not in answer:
            answer += await reader.read(1000)
    writer.transport.abort()
    with suppress(ConnectionError):
        await writer.wait_closed()
    return answer


async def _tunnelled(cluster: DevelopmentCluster, path: str, frames: bytes) -> bytes:
    """Speak SPDY in the messages of a websocket, as kubectl does."""
    protocol = "SPDY/3.1+portforward.k8s.io"
    answer = b""
    async with socket_of(cluster, path, protocol) as socket, asyncio.timeout(10):
        await socket.send_bytes(frames)
        while b'"/y"' not in answer:
            answer += await socket.receive_bytes()
    return answer
