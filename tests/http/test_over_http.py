"""The whole program over real HTTPS and on uvloop, as users run it."""

import asyncio
import base64
import os
import random
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, nullcontext
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec

import msgspec
import pytest
import uvloop
import yaml
from prometheus_client.parser import text_string_to_metric_families

from controller_manager.api.apps.v1 import DEPLOYMENTS
from controller_manager.api.coordination.v1 import LEASES
from controller_manager.api.core.v1 import PODS
from controller_manager.cli.daemon import stop_on_signals
from controller_manager.client.builder import Connections
from controller_manager.client.identity.credentials import Credentials, load_credentials
from controller_manager.client.identity.tls import TLSMaterial
from controller_manager.client.identity.tokens import TokenFile
from controller_manager.client.rest import errors
from controller_manager.client.rest.client import Client, ListOptions
from controller_manager.client.rest.transport import Request
from controller_manager.client.wire.http import HTTPTransport
from controller_manager.clock import SystemClock
from controller_manager.devcluster.apiserver.security import User
from controller_manager.devcluster.cli.steps import sample_manifests
from controller_manager.devcluster.cluster import ClusterOptions, DevCluster
from controller_manager.devcluster.controlplane import NAMESPACES
from controller_manager.devcluster.http_server import HTTPServer
from controller_manager.informers.informer import SharedInformer
from controller_manager.observability.logs import silent_logger
from controller_manager.registry import registry
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.serving.certificates import Pair, self_signed
from tests.clusters import Cluster, informer_metrics, make_config, run_manager
from tests.controllers.builders import deployment_json
from tests.http.servers import connected, listening
from tests.ports import free_port

P = ParamSpec("P")


def on_uvloop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(test(*args, **kwargs))

    return run


@asynccontextmanager
async def served(
    memory: Cluster, pair: Pair | None = None, port: int = 0
) -> AsyncGenerator[HTTPServer, None]:
    face = HTTPServer(memory.server, port, pair.ssl_context() if pair else None)
    await face.start()
    try:
        yield face
    finally:
        await face.close()


async def available(client: Client, replicas: int) -> bool:
    web = await client.get(DEPLOYMENTS, "default", "web")
    return web.status.available_replicas == replicas


async def until(condition: Callable[[], Coroutine[Any, Any, bool]]) -> None:
    async with asyncio.timeout(30):
        while not await condition():  # noqa: ASYNC110 - it polls a server
            await asyncio.sleep(0.02)


@on_uvloop
async def test_a_rollout_goes_all_the_way_over_https() -> None:
    clock = SystemClock()
    options = ClusterOptions(pod_start_delay=0.05, grace_scale=0)
    async with DevCluster(options, clock) as cluster:
        transport = HTTPTransport(cluster.credentials(), "test")
        client = Client(transport, clock)
        async with run_manager(
            Connections(transport), clock, random.Random(1), make_config()
        ):
            body = msgspec.json.encode(deployment_json(replicas=5))
            await client.create_json(DEPLOYMENTS, "default", body)

            await until(lambda: available(client, 5))
            patch = {"spec": {"replicas": 1}}
            await client.patch(DEPLOYMENTS, "default", "web", patch)

            async def shrunk() -> bool:
                return len((await client.list_page(PODS)).items) == 1

            await until(shrunk)
        await transport.close()


@on_uvloop
async def test_errors_come_through_http() -> None:
    clock = SystemClock()
    untrusted = TLSMaterial(verify=False)
    async with DevCluster(ClusterOptions(nodes=0), clock) as cluster:
        url = cluster.url
        transport = HTTPTransport(cluster.credentials(), "test")
        with pytest.raises(errors.NotFound):
            await Client(transport, clock).get(PODS, "default", "absent")
        await transport.close()
        async with connected(url, tls=untrusted, token="wrong") as other:
            with pytest.raises(errors.Unauthorized):
                await Client(other, clock).get(PODS, "default", "absent")
        async with connected(url) as untrusting:
            with pytest.raises(
                errors.TransportError, match="certificate is not trusted"
            ):
                await untrusting.request(Request("GET", "/healthz"))
    async with connected(url) as gone:
        with pytest.raises(errors.TransportError, match="cannot connect"):
            await gone.request(Request("GET", "/healthz"))


def test_a_server_that_does_not_answer_is_given_up() -> None:
    async def test(port: int) -> None:
        async with connected(f"http://127.0.0.1:{port}") as transport:
            request = Request("GET", "/healthz", timeout=0.1)
            with pytest.raises(errors.RequestTimeout, match=r"no answer within 0\.1 s"):
                await transport.request(request)
            with pytest.raises(errors.RequestTimeout):
                await transport.stream(request)

    # The kernel accepts the connection; no program ever reads from it.
    with socket.create_server(("127.0.0.1", 0)) as mute:
        port = int(mute.getsockname()[1])
        on_uvloop(test)(port)


@pytest.mark.slow
@on_uvloop
async def test_a_server_that_hangs_gets_no_more_requests_than_a_client_may_send() -> (
    None
):
    """Another client still sends its own requests."""
    connections = 0

    async def hang(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await reader.read()

    clock = SystemClock()
    async with (
        listening(hang) as port,
        connected(f"http://127.0.0.1:{port}") as transport,
    ):
        busy = Client(transport, clock, in_flight=32, write_timeout=2)
        lease = Client(transport, clock, write_timeout=2)
        tasks = [
            asyncio.create_task(busy.create_json(PODS, "default", b"{}"))
            for _ in range(100)
        ]
        await asyncio.sleep(0.3)
        waiting = connections
        tasks.append(asyncio.create_task(lease.create_json(PODS, "default", b"{}")))
        await asyncio.sleep(0.3)
        assert (waiting, connections) == (32, 33)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.slow
@on_uvloop
async def test_a_watch_survives_the_restart_of_its_server() -> None:
    clock = SystemClock()
    memory = Cluster()
    async with served(memory) as face:
        port = int(face.url.rpartition(":")[2])
        credentials = Credentials(face.url, clock=clock, token="test")
        transport = HTTPTransport(credentials, "test")
        informer = SharedInformer(
            Client(transport, clock),
            PODS,
            resync_period=0,
            rng=memory.rng,
            logger=silent_logger(),
            metrics=informer_metrics(),
        )
        running = asyncio.create_task(informer.run())
        await informer.wait_for_sync()
    memory.add("Pod", "a", spec={"containers": [{"name": "c", "image": "x"}]})

    async def seen() -> bool:
        return len(informer.store) == 1

    async with served(memory, port=port):
        await until(seen)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await transport.close()


# Credentials that change while the client runs


async def listing(transport: HTTPTransport) -> int:
    answer = await transport.request(Request("GET", "/api/v1/pods"))
    return answer.status


@on_uvloop
async def test_after_a_401_the_token_file_is_read_and_the_request_sent_again(
    tmp_path: Path,
) -> None:
    memory = Cluster()
    file = tmp_path / "token"

    def renew(token: str) -> None:
        memory.server.tokens.revoke("u")
        memory.server.tokens.add(token, User("u"))
        file.write_text(token)

    renew("old")
    source = TokenFile(file, SystemClock())
    async with served(memory) as face, connected(face.url, source=source) as transport:
        assert await listing(transport) == 200
        memory.server.tokens.revoke("u")
        assert await listing(transport) == 401
        renew("new")
        together = await asyncio.gather(*(listing(transport) for _ in range(5)))
        assert together == [200] * 5
        renew("newer")
        query = (("watch", "true"),)
        stream = await transport.stream(Request("GET", "/api/v1/pods", query=query))
        assert stream.status == 200
        await stream.close()


@on_uvloop
async def test_a_new_authority_of_the_server_is_followed(tmp_path: Path) -> None:
    memory = Cluster()
    old, new = (self_signed("ca", ["127.0.0.1"]) for _ in "ab")
    file = tmp_path / "ca.crt"
    file.write_bytes(old.certificate)
    tls = TLSMaterial(authority=file)
    async with AsyncExitStack() as stack:
        async with served(memory, old) as face:
            port = int(face.url.rpartition(":")[2])
            credentials = Credentials(
                face.url, clock=SystemClock(), tls=tls, token="test"
            )
            transport = HTTPTransport(credentials, "test")
            stack.push_async_callback(transport.close)
            assert await listing(transport) == 200
        await stack.enter_async_context(served(memory, new, port))
        with pytest.raises(errors.UntrustedServer):
            await listing(transport)
        refused = await credentials.identity()
        file.write_bytes(new.certificate)
        assert await credentials.refresh(refused)
        assert await listing(transport) == 200


@on_uvloop
async def test_a_server_may_be_known_by_another_name() -> None:
    """``tls-server-name``: the certificate is for that name, not for the address.

    A trailing dot makes a name absolute, and is no part of it.
    """
    pair = self_signed("ca", ["apiserver.example"])
    statuses = []
    async with served(Cluster(), pair) as face:
        for name in ("apiserver.example", "apiserver.example.", None):
            given = {"ca_data": pair.certificate, "tls_server_name": name}
            async with connected(face.url, token="test", **given) as transport:
                try:
                    statuses.append(await listing(transport))
                except errors.UntrustedServer:
                    statuses.append(0)
    assert statuses == [200, 200, 0]


def test_a_second_signal_ends_it_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)

    @on_uvloop
    async def test() -> None:
        stop = stop_on_signals(silent_logger())
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(stop.wait(), 10)
        assert codes == []
        os.kill(os.getpid(), signal.SIGINT)
        async with asyncio.timeout(10):
            while not codes:  # noqa: ASYNC110 - a signal comes when it comes
                await asyncio.sleep(0.01)

    test()
    assert codes == [1]


# As processes


@contextmanager
def running_devcluster(kubeconfig: Path, *flags: str) -> Iterator[Path]:
    process = start(
        *("devcluster", "--port=0", "--pod-start-delay=50ms", "--without-controllers"),
        *(f"--write-kubeconfig={kubeconfig}", *flags),
    )
    wait_for(kubeconfig.exists, process)
    yield kubeconfig
    process.send_signal(signal.SIGINT)
    output = process.communicate(timeout=10)[0]
    assert process.returncode == 0, output
    assert not kubeconfig.exists()


@pytest.fixture
def devcluster(tmp_path: Path) -> Iterator[Path]:
    with running_devcluster(tmp_path / "kubeconfig", "--grace-scale=0") as kubeconfig:
        yield kubeconfig


@pytest.fixture
def confined(tmp_path: Path) -> Iterator[Path]:
    """Run a cluster with RBAC; yield a kubeconfig of the administrator."""
    with running_devcluster(tmp_path / "confined", "--rbac") as kubeconfig:
        yield kubeconfig


@asynccontextmanager
async def client_of(
    kubeconfig: Path,
) -> AsyncGenerator[tuple[Client, HTTPTransport], None]:
    clock = SystemClock()
    transport = HTTPTransport(load_credentials(str(kubeconfig), "", clock), "test")
    yield Client(transport, clock), transport
    await transport.close()


def start(*arguments: str, log: Path | None = None) -> "subprocess.Popen[str]":
    with log.open("w") if log else nullcontext(subprocess.PIPE) as output:
        return subprocess.Popen(
            [sys.executable, "-m", "controller_manager", *arguments],
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=Path(__file__).parents[2],
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )


def wait_for(condition: Callable[[], bool], process: "subprocess.Popen[str]") -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.05)


UNVERIFIED = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
UNVERIFIED.check_hostname = False
UNVERIFIED.verify_mode = ssl.CERT_NONE


def get(port: int, path: str, headers: dict[str, str] | None = None) -> tuple[int, str]:
    try:
        url = f"https://127.0.0.1:{port}{path}"
        request = urllib.request.Request(url, headers=headers or {})
        with urllib.request.urlopen(  # noqa: S310 - our own URL
            request, context=UNVERIFIED
        ) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except (urllib.error.URLError, ConnectionError):
        return 0, ""


def token_of(kubeconfig: Path) -> dict[str, str]:
    users = yaml.safe_load(kubeconfig.read_text())["users"]
    return {"Authorization": f"Bearer {users[0]['user']['token']}"}


@pytest.mark.slow
def test_the_daemon_serves_metrics_and_stops_on_a_signal(devcluster: Path) -> None:
    port = free_port()
    bearer = token_of(devcluster)
    process = start(
        f"--kubeconfig={devcluster}",
        f"--authentication-kubeconfig={devcluster}",
        f"--authorization-kubeconfig={devcluster}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        "--controllers=deployment-controller,replicaset-controller",
        "--kube-api-qps=1000",
        "--kube-api-burst=1000",
    )
    try:
        wait_for(lambda: "replicaset" in get(port, "/healthz?verbose")[1], process)
        assert get(port, "/healthz") == (200, "ok")
        assert get(port, "/healthz?verbose") == (
            200,
            (
                "[+]leaderElection ok\n[+]deployment-controller ok\n"
                "[+]replicaset-controller ok\n[+]main-loop ok\n"
                "healthz check passed\n"
            ),
        )
        wait_for(lambda: get(port, "/readyz")[0] == 200, process)
        # The endpoint table of the reference: anonymous, then allowed.
        for path, anonymous, allowed in (
            ("/healthz", 200, 200),
            ("/livez", 200, 200),  # 404 upstream
            ("/readyz", 200, 200),  # 404 upstream
            ("/metrics", 403, 200),
            ("/configz", 403, 200),
            ("/flagz", 403, 200),
            ("/statusz", 403, 200),
            ("/debug/pprof/", 403, 200),
            ("/nothing", 403, 404),
        ):
            assert get(port, path)[0] == anonymous, path
            assert get(port, path, bearer)[0] == allowed, path
        text = get(port, "/metrics", bearer)[1]
        families = {family.name for family in text_string_to_metric_families(text)}
        assert {"workqueue_depth", "rest_client_requests"} <= families
        assert 'leader_election_master_status{name="kube-controller-manager"} 1' in text
    finally:
        process.terminate()
    assert process.wait(15) == 0
    output = process.communicate()[0]
    assert '"Caches are synced"' in output
    assert '"Shutting down"' in output
    assert "Traceback" not in output


KUBEADM = Path(__file__).parents[1] / "data" / "kubeadm-kube-controller-manager.yaml"


def kubeadm_files(directory: Path, kubeconfig: Path) -> dict[str, str]:
    """Write kubeadm's files of a control plane; return the flags for them."""
    config = yaml.safe_load(kubeconfig.read_text())
    config["current-context"] = "system:kube-controller-manager"
    (directory / "controller-manager.conf").write_text(yaml.safe_dump(config))
    (directory / "pki").mkdir()
    for name in ("ca", "front-proxy-ca"):
        pair = self_signed(name, ["x"])
        (directory / "pki" / f"{name}.crt").write_bytes(pair.certificate)
        (directory / "pki" / f"{name}.key").write_bytes(pair.key)
    accounts = self_signed("sa", ["x"], rsa_key=True)
    (directory / "pki" / "sa.key").write_bytes(accounts.key)
    manifest = yaml.safe_load(KUBEADM.read_text())
    command = manifest["spec"]["containers"][0]["command"][1:]
    return {
        name: value.replace("/etc/kubernetes", str(directory))
        for name, _, value in (argument.partition("=") for argument in command)
    }


def _has_gates(descriptor: Descriptor) -> bool:
    """Tell whether the gates that a controller requires are enabled by default."""
    return all(gate.default for gate in descriptor.requires_gates)


@pytest.mark.slow
def test_kubeadms_manifest_starts_as_it_is(confined: Path, tmp_path: Path) -> None:
    port = free_port()
    directory = tmp_path / "kubernetes"
    directory.mkdir()
    flags = kubeadm_files(directory, confined)
    log = tmp_path / "log"
    arguments = [f"{name}={value}" for name, value in flags.items()]
    process = start(*arguments, f"--secure-port={port}", log=log)
    wait_for(lambda: "Starting controller" in log.read_text(), process)
    # While the main loop is busy, /healthz has only the checks of the other one.
    wait_for(lambda: "token-controller" in get(port, "/healthz?verbose")[1], process)
    first, *checks, last = get(port, "/healthz?verbose")[1].splitlines()
    assert (first, last) == ("[+]leaderElection ok", "healthz check passed")
    assert checks[0] == "[+]serviceaccount-token-controller ok", "it starts first"
    healthy = {each.removeprefix("[+]").removesuffix(" ok") for each in checks}
    assert len(healthy) == len(checks)
    selected = registry().select(flags["--controllers"].split(","))
    controllers = {each.name for each in selected if _has_gates(each)}
    assert healthy == {*controllers, "main-loop"}

    async def roll_out() -> None:
        async with client_of(confined) as (client, _):
            body = msgspec.json.encode(deployment_json(replicas=3))
            await client.create_json(DEPLOYMENTS, "default", body)
            await until(lambda: available(client, 3))

    on_uvloop(roll_out)()
    process.terminate()
    assert process.wait(15) == 0
    lines = [line for line in log.read_text().splitlines() if line.startswith("W")]
    assert lines == []


LEASE = (
    "--leader-elect-lease-duration=3s",
    "--leader-elect-renew-deadline=2s",
    "--leader-elect-retry-period=500ms",
)


@pytest.mark.slow
def test_a_stolen_lease_is_exit_code_1(devcluster: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = start(f"--kubeconfig={devcluster}", "--secure-port=0", *LEASE, log=log)
    wait_for(lambda: "Starting controller" in log.read_text(), process)

    async def steal() -> None:
        patch = {"spec": {"holderIdentity": "thief"}}
        async with client_of(devcluster) as (client, _):
            await client.patch(LEASES, "kube-system", "kube-controller-manager", patch)

    on_uvloop(steal)()
    assert process.wait(15) == 1
    lines = log.read_text().splitlines()
    assert lines[-1] == (
        "Error: leader election lost: the lease kube-system/kube-controller-manager is "
        "held by thief"
    )
    assert not any("Traceback" in line for line in lines)


@pytest.mark.slow
def test_an_untrusted_server_is_one_line(devcluster: Path, tmp_path: Path) -> None:
    """Waiting would not help: the exit code is 1."""
    config = yaml.safe_load(devcluster.read_text())
    other = base64.b64encode(self_signed("other", ["x"]).certificate).decode()
    config["clusters"][0]["cluster"]["certificate-authority-data"] = other
    (tmp_path / "wrong").write_text(yaml.safe_dump(config))
    process = start(f"--kubeconfig={tmp_path}/wrong", "--secure-port=0")
    output = process.communicate(timeout=20)[0]
    assert process.returncode == 1
    assert "the certificate is not trusted" in output.splitlines()[-1]
    assert output.splitlines()[-1].startswith("Error: GET /healthz at 127.0.0.1:")
    assert "Traceback" not in output


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.slow
def test_a_standby_takes_over(
    devcluster: Path, tmp_path: Path, number: signal.Signals
) -> None:
    """At once after a clean stop; after the lease's end if the leader is killed."""
    managers = []
    for name in "ab":
        log = tmp_path / name
        flags = (f"--kubeconfig={devcluster}", "--secure-port=0", *LEASE)
        managers.append((start(*flags, log=log), log))

    def wrote(log: Path, text: str) -> bool:
        return text in log.read_text()

    def one_leads() -> bool:
        return all(
            wrote(log, "Attempting to acquire leader lease") for _, log in (managers)
        ) and any(wrote(log, "Starting controller") for _, log in managers)

    wait_for(one_leads, managers[0][0])
    managers.sort(key=lambda each: not wrote(each[1], "Starting controller"))
    (leader, _), (standby, log) = managers
    killed_at = time.monotonic()
    leader.send_signal(number)
    wait_for(lambda: wrote(log, "Starting controller"), standby)
    took = time.monotonic() - killed_at
    assert leader.wait(15) == (0 if number is signal.SIGTERM else -number)
    standby.terminate()
    assert standby.wait(15) == 0
    # The lease lasts 3 s: much longer than any delay of the machine.
    assert took < 15


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: [", "manifest m.yaml, line 1: not valid YAML: "),
        (
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: A_b}}",
            (
                'manifest m.yaml, document 1: ConfigMap "A_b" is invalid: '
                'metadata.name: Invalid value: "A_b": '
            ),
        ),
    ],
)
@pytest.mark.slow
def test_a_bad_manifest_is_one_line(tmp_path: Path, text: str, problem: str) -> None:
    """It is no YAML, or is refused: the exit code is 1."""
    (tmp_path / "m.yaml").write_text(text)
    process = start("devcluster", "--port=0", f"--manifests={tmp_path}")
    output = process.communicate(timeout=20)[0]
    assert process.returncode == 1
    assert output.splitlines()[-1].startswith(f"Error: {problem}")
    assert "Traceback" not in output


@pytest.mark.slow
def test_a_cluster_can_start_with_objects_in_it(tmp_path: Path) -> None:
    """Namespaces are created first, as the samples need it."""
    kubeconfig = tmp_path / "kubeconfig"
    process = start(
        "devcluster",
        "--port=0",
        "--manifests=controller_manager/devcluster/samples",
        f"--write-kubeconfig={kubeconfig}",
    )
    wait_for(kubeconfig.exists, process)
    process.terminate()
    output = process.communicate(timeout=20)[0]
    assert process.returncode == 0, output
    assert [line for line in output.splitlines() if line.endswith(" created")] == [
        f"{manifest.kind.singular}/{manifest.name} created"
        for manifest in sample_manifests()
    ]


@pytest.mark.slow
def test_the_demo_ends_well_and_tells_what_happened() -> None:
    """In much less than a minute."""
    process = start("demo")
    output = process.communicate(timeout=60)[0]
    assert process.returncode == 0, output
    for line in (
        "deployment/web created",
        "Roll web back",
        "Update db from its last pod on, and agent node by node",
        "Set the last run of report back by a day: it makes up for one run",
        "What happened",
        "controller-manager devcluster -- bash",
    ):
        assert line in output


@pytest.mark.slow
@on_uvloop
async def test_pages_come_over_http(devcluster: Path) -> None:
    """A continue token in a URL is read back unchanged."""
    request = Request("GET", "/api/v1/namespaces", query=(("limit", "3"),))
    async with client_of(devcluster) as (client, transport):
        assert (await transport.request(request)).status == 200
        pages = client.list_all(PODS, options=ListOptions(label_selector="a in (b,c)"))
        assert [page.items async for page in pages] == [[]]
    assert len(NAMESPACES) == 4
