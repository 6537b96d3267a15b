"""The endpoints of the daemon, and which users may read them."""

import asyncio
import errno
import json
import os
import socket
import ssl
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from prometheus_client.parser import text_string_to_metric_families

from controller_manager.client.rest.client import Client
from controller_manager.client.rest.errors import NotSent, TransportError
from controller_manager.client.rest.limits import RequestLimiter
from controller_manager.client.rest.transport import Request, Response
from controller_manager.clock import SystemClock
from controller_manager.observability.logs import silent_logger
from controller_manager.options.config import (
    AuthenticationConfig,
    CertificateFiles,
    ServingConfig,
)
from controller_manager.serving.authentication import Authenticator, Refused
from controller_manager.serving.certificates import ServingError, self_signed
from controller_manager.serving.connection import ConnectionLimits
from controller_manager.serving.health_endpoints import HealthEndpoints
from controller_manager.serving.reviews import ReviewLimiter, TooManyReviews
from tests.clusters import Cluster
from tests.serving.servers import (
    ILL,
    Authority,
    Reviewed,
    closed,
    config_of,
    get,
    server_of,
    serving,
    trusting,
)
from tests.streams import FakeTransport

# Endpoints


async def test_metrics_are_refreshed_before_each_scrape() -> None:
    async with serving() as url:
        await get(f"{url}/metrics")
        status, text = await get(f"{url}/metrics")
    values = {
        sample.name: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.name.endswith("_created")
    }
    assert (status, values) == (
        200,
        {
            "scrapes": 2.0,
            "serving_connections_evicted_total": 0.0,
            "serving_connections_refused_total": 0.0,
        },
    )


async def test_a_metric_can_be_left_out() -> None:
    async with serving(config_of(disabled_metrics=("scrapes",))) as url:
        status, text = await get(f"{url}/metrics")
    assert (status, "scrapes" in text, "serving_" in text) == (200, False, True)


async def test_statusz_shows_start_time_and_versions() -> None:
    async with serving() as url:
        status, text = await get(f"{url}/statusz")
        accept = "application/json;v=v1beta1;g=config.k8s.io;as=Statusz"
        encoded = await get(f"{url}/statusz", headers={"Accept": accept})
    assert status == 200
    lines = text.splitlines()
    assert lines[1] == "kube-controller-manager statusz"
    assert "Started: Thu Jan  1 00:00:00 UTC 2026" in lines
    assert "Emulation version: 1.36" in lines
    assert '"startTime":"2026-01-01T00:00:00Z"' in encoded[1]
    paths = "/configz /flagz /healthz /livez /metrics /readyz"
    assert f"Paths: {paths}" in lines
    assert json.loads(encoded[1])["paths"] == paths.split()


async def test_the_root_of_the_debug_pages_leads_to_their_index() -> None:
    """By a redirect, as upstream."""
    async with serving() as url, aiohttp.ClientSession() as session:
        request = session.get(
            f"{url}/debug/pprof", ssl=trusting(), allow_redirects=False
        )
        async with request as answer:
            assert (answer.status, answer.headers["Location"]) == (302, "/debug/pprof/")
        async with session.get(f"{url}/debug/pprof", ssl=trusting()) as answer:
            assert answer.status == 200
            assert "goroutine" in await answer.text()


async def test_the_stacks_of_tasks_and_threads_are_shown() -> None:
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait, name="waiting")
    thread.start()
    async with serving() as url:
        status, text = await get(f"{url}/debug/pprof/goroutine?debug=2")
    stop.set()
    thread.join()
    tasks, _, threads = text.partition(" threads\n\n")
    assert (status, " tasks\n\ntask " in tasks) == (200, True)
    assert "\nthread MainThread:\n" in f"\n{threads}"
    assert threads.rindex("in _bootstrap") > threads.index("thread waiting:\n")


async def test_without_a_review_there_is_no_permission() -> None:
    cluster = Cluster()

    async def refuse(request: Request) -> Response:
        raise NotSent(request.path)

    cluster.server.handle = refuse  # type: ignore[method-assign]
    async with serving(closed(), client=cluster.client) as url:
        assert (await get(f"{url}/metrics"))[0] == 500
        assert (await get(f"{url}/healthz")) == (200, "ok")
        assert (await get(f"{url}/metrics", headers={"Authorization": "Bearer x"}))[
            0
        ] == 401


class _Exhausted(RequestLimiter):
    """A rate limit that allows nothing."""

    async def acquire(self) -> float:
        msg = "200 reviews wait"
        raise TooManyReviews(msg)


@pytest.mark.parametrize("token", [None, "good"])
async def test_a_request_gets_429_if_too_many_reviews_wait(token: str | None) -> None:
    reviewed = Reviewed()
    clock = reviewed.clock
    client = Client(reviewed.transport, clock, _Exhausted(1, 1, clock))
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        serving(closed(), client=client) as url,
        aiohttp.ClientSession(headers=headers) as session,
        session.get(f"{url}/metrics", ssl=trusting()) as answer,
    ):
        assert (answer.status, answer.headers["Retry-After"]) == (429, "1")
        assert await answer.json() == {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": "200 reviews wait",
            "reason": "TooManyRequests",
            "code": 429,
        }
    assert reviewed.asked == []


async def test_a_failing_probe_does_not_wait_long_for_the_api_server() -> None:
    cluster = Cluster()

    async def hang(request: Request) -> Response:
        await asyncio.Event().wait()
        raise TransportError(request.path)

    cluster.server.handle = hang  # type: ignore[method-assign]
    async with serving(closed(), ILL, cluster.client) as url, asyncio.timeout(5):
        assert await get(f"{url}/livez") == (
            500,
            "[+]a ok\n[-]b failed: reason withheld\nlivez check failed\n",
        )


async def counted(url: str) -> dict[str, float]:
    admin = {"Authorization": "Bearer good"}
    _, text = await get(f"{url}/metrics", headers=admin)
    return {
        family.name: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith("serving_") and sample.name.endswith("_total")
    }


UNVERIFIED = trusting()  # one for all requests, so that connections are kept


async def asked_of(session: aiohttp.ClientSession, url: str) -> int:
    async with session.get(f"{url}/livez", ssl=UNVERIFIED) as answer:
        await answer.read()
        return answer.status


async def test_the_oldest_connection_that_waits_is_closed_for_a_new_one() -> None:
    async with (
        serving(limits=ConnectionLimits(connections=2)) as url,
        aiohttp.ClientSession() as first,
        aiohttp.ClientSession() as second,
    ):
        port = int(url.rpartition(":")[2])
        half_open, to_half_open = await asyncio.open_connection("127.0.0.1", port)
        idle, to_idle = await asyncio.open_connection("127.0.0.1", port, ssl=trusting())
        assert await asked_of(first, url) == 200
        assert await half_open.read() == b""
        assert await asked_of(second, url) == 200
        assert await idle.read() == b""
        assert [await asked_of(each, url) for each in (first, second)] == [200, 200]
        assert await counted(url) == {
            "serving_connections_evicted": 3,
            "serving_connections_refused": 0,
        }
        for writer in (to_half_open, to_idle):
            writer.close()
            await writer.wait_closed()


async def test_all_in_use_means_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, let = asyncio.Semaphore(0), asyncio.Event()
    answer = HealthEndpoints._probe

    async def slow(health: HealthEndpoints, request: web.Request) -> web.Response:
        if request.path == "/readyz":
            asked.release()
            await let.wait()
        return await answer(health, request)

    monkeypatch.setattr(HealthEndpoints, "_probe", slow)
    limits = ConnectionLimits(connections=2)
    async with serving(config_of(), limits=limits) as url:
        busy = [asyncio.create_task(get(f"{url}/readyz")) for _ in range(2)]
        for _ in busy:
            await asked.acquire()
        with pytest.raises(aiohttp.ClientError):
            await get(f"{url}/livez")
        let.set()
        assert [status for status, _ in await asyncio.gather(*busy)] == [200, 200]
        assert await counted(url) == {
            "serving_connections_evicted": 0,
            "serving_connections_refused": 1,
        }


class _Hanging(FakeTransport):
    """A transport to an API server that does not answer."""

    async def request(self, _: Request) -> Response:
        await asyncio.sleep(60)
        raise AssertionError


async def test_requests_that_wait_for_a_review_do_not_shut_out_a_probe() -> None:
    """Any client can send them, also to /livez itself; kubelets must get an answer."""
    clock = SystemClock()
    client = Client(_Hanging(), clock, ReviewLimiter(clock))
    limits = ConnectionLimits(connections=4)
    config = closed(skip_lookup=True)
    async with serving(config, client=client, limits=limits) as url:
        flood = [
            asyncio.create_task(get(f"{url}/livez", headers=_bearer(number)))
            for number in range(4)
        ]
        await asyncio.sleep(0.3)
        assert (await get(f"{url}/livez"))[0] == 200
        for task in flood:
            task.cancel()
        await asyncio.gather(*flood, return_exceptions=True)


def _bearer(number: int) -> dict[str, str]:
    return {"authorization": f"Bearer {number}"}


@pytest.mark.looptime
async def test_a_flood_of_tokens_spares_the_settings(cluster: Cluster) -> None:
    reviews = Client(cluster.transport, cluster.clock, ReviewLimiter(cluster.clock))
    authenticator = Authenticator(
        AuthenticationConfig(),
        reviews,
        lookup=cluster.client,
        clock=cluster.clock,
        logger=silent_logger(),
    )
    following = asyncio.create_task(authenticator.poll_cluster_settings())
    asking = [
        asyncio.create_task(authenticator.authenticate(_bearer(number), []))
        for number in range(1000)
    ]
    refused = await asyncio.gather(*asking, return_exceptions=True)
    assert {type(each) for each in refused} == {Refused, TooManyReviews}
    assert not following.done()
    following.cancel()


async def test_a_client_certificate_names_a_user(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ca")
    admin = authority.issue("admin", "admin", "system:masters")
    other = authority.issue("other", "other")
    async with serving(closed(authority)) as url:
        assert (await get(f"{url}/metrics", trusting(pair=admin)))[0] == 200
        status, text = await get(f"{url}/metrics", trusting(pair=other))
        assert (status, 'User \\"other\\" cannot get' in text) == (403, True)


async def test_an_intermediate_authority_vouches_for_users(tmp_path: Path) -> None:
    """``--client-ca-file`` need not have what signed it, as in Go."""
    root = Authority(tmp_path, "root")
    intermediate = Authority(tmp_path, "intermediate", root)
    admin = intermediate.issue("admin", "admin", "system:masters")
    other = root.issue("other", "other", "system:masters")
    async with serving(closed(intermediate)) as url:
        assert (await get(f"{url}/metrics", trusting(pair=admin)))[0] == 200
        with pytest.raises(aiohttp.ClientError):
            await get(f"{url}/metrics", trusting(pair=other))


async def test_a_front_proxy_may_name_the_user_in_headers(tmp_path: Path) -> None:
    proxies, users = Authority(tmp_path, "proxies"), Authority(tmp_path, "users")
    headers = {"X-Remote-User": "admin", "X-Remote-Group": "system:masters"}
    async with serving(closed(users, proxies, ("front",))) as url:
        statuses = [
            (await get(f"{url}/metrics", trusting(pair=pair), headers=headers))[0]
            for pair in (
                proxies.issue("front", "front"),
                proxies.issue("back", "back"),
                users.issue("user", "front"),
            )
        ]
        statuses.append((await get(f"{url}/metrics", headers=headers))[0])
    # The certificate of a user is a user; one of no user is refused.
    assert statuses == [200, 401, 403, 403]


async def test_a_front_proxys_certificate_is_no_user(tmp_path: Path) -> None:
    """The authority of front proxies does not authenticate users."""
    proxies, users = Authority(tmp_path, "proxies"), Authority(tmp_path, "users")
    posing = proxies.issue("posing", "admin", "system:masters")
    async with serving(closed(users, proxies)) as url:
        assert (await get(f"{url}/metrics", trusting(pair=posing)))[0] == 401
        assert (await get(f"{url}/healthz", trusting(pair=posing)))[0] == 401


async def test_an_invalid_token_is_refused_without_a_review() -> None:
    reviewed = Reviewed()
    server = server_of(closed(), client=reviewed.client)
    await server.start()
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", server.port, ssl=trusting()
    )
    writer.write(b"GET /metrics HTTP/1.0\r\nAuthorization: Bearer \xff\r\n\r\n")
    assert (await reader.readline()).split()[1] == b"401"
    writer.close()
    await writer.wait_closed()
    await server.close()
    assert reviewed.asked == []


class _Settings(Cluster):
    """A cluster whose authentication settings a test sets."""

    def __init__(self, client_ca: str) -> None:
        super().__init__()
        self.forbidden = False
        self._handle = self.server.handle
        self.server.handle = self._answer  # type: ignore[method-assign]
        self.client_ca = client_ca

    async def _answer(self, request: Request) -> Any:
        if not request.path.endswith("/extension-apiserver-authentication"):
            return await self._handle(request)
        if self.forbidden:
            return Response(403, {}, b'{"message":"may not","code":403}')
        data = {"client-ca-file": self.client_ca}
        return Response(200, {}, json.dumps({"data": data}).encode())


def follower(cluster: Cluster, *, tolerates: bool = False) -> Authenticator:
    return Authenticator(
        AuthenticationConfig(tolerate_lookup_failure=tolerates),
        cluster.client,
        clock=cluster.clock,
        logger=silent_logger(),
    )


@pytest.mark.looptime
async def test_the_clusters_authorities_are_read_every_minute(tmp_path: Path) -> None:
    first, second = Authority(tmp_path, "a").pem, Authority(tmp_path, "b").pem
    cluster = _Settings(first.decode())
    authenticator = follower(cluster)
    following = asyncio.create_task(authenticator.poll_cluster_settings())
    await asyncio.sleep(1)
    assert authenticator.authorities.bundle().strip() == first.strip()
    cluster.client_ca = "garbage \xe9"
    await asyncio.sleep(60)
    assert authenticator.authorities.bundle().strip() == first.strip()
    cluster.client_ca = second.decode()
    cluster.forbidden = True
    await asyncio.sleep(60)  # no reason to end: it was allowed before
    cluster.forbidden = False
    await asyncio.sleep(60)
    assert authenticator.authorities.bundle().strip() == second.strip()
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)


@pytest.mark.looptime
async def test_a_forbidden_look_up_of_authorities_is_an_error() -> None:
    cluster = _Settings("")
    cluster.forbidden = True
    with pytest.raises(ServingError, match="mend it with: kubectl create rolebinding"):
        await follower(cluster).poll_cluster_settings()
    following = asyncio.create_task(
        follower(cluster, tolerates=True).poll_cluster_settings()
    )
    await asyncio.sleep(300)
    assert not following.done()
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)


async def test_a_changed_serving_certificate_is_used(tmp_path: Path) -> None:
    first, second = Authority(tmp_path, "first"), Authority(tmp_path, "second")
    certificate, key = first.issue("serving", "localhost")
    files = CertificateFiles(str(certificate), str(key))
    serving_config = ServingConfig(port=0, bind_address="127.0.0.1", certificate=files)
    async with serving(config_of(serving=serving_config)) as url:

        async def trusted(authority: Authority) -> bool:
            context = trusting(authority.pem)
            context.check_hostname = False
            try:
                return (await get(f"{url}/healthz", context)) == (200, "ok")
            except aiohttp.ClientError:
                return False

        assert [await trusted(first), await trusted(second)] == [True, False]
        good_key = key.read_bytes()
        second.issue("serving", "localhost")
        new_key = key.read_bytes()
        key.write_bytes(good_key)
        assert await trusted(first)
        key.write_bytes(new_key)
        assert [await trusted(first), await trusted(second)] == [False, True]


async def test_a_changed_client_authority_is_used(tmp_path: Path) -> None:
    old, new = Authority(tmp_path, "old"), Authority(tmp_path, "new")
    before = old.issue("before", "admin", "system:masters")
    after = new.issue("after", "admin", "system:masters")
    async with serving(closed(old)) as url:
        assert (await get(f"{url}/metrics", trusting(pair=before)))[0] == 200
        old.path.write_bytes(new.pem)
        assert (await get(f"{url}/metrics", trusting(pair=after)))[0] == 200
        with pytest.raises(aiohttp.ClientError):
            await get(f"{url}/metrics", trusting(pair=before))


@pytest.mark.parametrize("error", [errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT])
async def test_without_ipv6_all_interfaces_are_those_of_ipv4(
    error: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel may have IPv6 built in, but no address of it."""
    create = socket.create_server

    def create_ipv4(address: tuple[str, int], **options: Any) -> socket.socket:
        if options["family"] == socket.AF_INET6:
            raise OSError(error, os.strerror(error))
        return create(address, **options)

    monkeypatch.setattr(socket, "create_server", create_ipv4)
    config = config_of(serving=ServingConfig(port=0))
    async with serving(config) as url:
        assert (await get(f"{url}/healthz"))[0] == 200


async def test_a_name_gets_the_certificate_that_is_for_it(tmp_path: Path) -> None:
    default, named = Authority(tmp_path, "default"), Authority(tmp_path, "named")
    first = [str(each) for each in default.issue("a", "a")]
    other = [str(each) for each in named.issue("b", "b")]
    config = config_of(
        serving=ServingConfig(
            port=0,
            bind_address="127.0.0.1",
            certificate=CertificateFiles(first[0], first[1]),
            sni=(CertificateFiles(other[0], other[1]),),
        )
    )
    server = server_of(config)
    await server.start()
    for name, authority in (("served.example", named), ("else.example", default)):
        context = trusting(authority.pem)
        context.check_hostname = False
        _, writer = await asyncio.open_connection(
            "127.0.0.1", server.port, ssl=context, server_hostname=name
        )
        writer.close()
        await writer.wait_closed()
    await server.close()


async def test_a_self_signed_certificate_is_kept(tmp_path: Path) -> None:
    directory = tmp_path / "certs"
    config = config_of(
        serving=ServingConfig(port=0, bind_address="127.0.0.1", cert_dir=str(directory))
    )
    for _ in range(2):
        async with serving(config) as url:
            file = directory / "kube-controller-manager.crt"
            made = file.read_bytes()
            assert await get(f"{url}/healthz", trusting(made)) == (200, "ok")
    assert file.read_bytes() == made
    key = directory / "kube-controller-manager.key"
    assert key.stat().st_mode & 0o777 == 0o600


async def test_old_tls_versions_and_ciphers_are_refused() -> None:
    modern = ServingConfig(
        port=0, bind_address="127.0.0.1", min_tls_version=ssl.TLSVersion.TLSv1_3
    )
    async with serving(config_of(serving=modern)) as url:
        context = trusting()
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises(aiohttp.ClientError):
            await get(f"{url}/healthz", context)
        assert await get(f"{url}/healthz") == (200, "ok")


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
@pytest.mark.parametrize("host", ["0.0.0.0", "::"])  # noqa: S104 - all interfaces
async def test_all_interfaces_are_of_both_families(host: str, address: str) -> None:
    """Also if ``--bind-address`` looks like IPv4, as upstream's default; as in Go."""
    if not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    config = config_of(serving=ServingConfig(port=0, bind_address=host))
    server = server_of(config)
    await server.start()
    host = f"[{address}]" if ":" in address else address
    assert await get(f"https://{host}:{server.port}/healthz") == (200, "ok")
    await server.close()


async def test_a_certificate_without_its_key_is_not_overwritten(tmp_path: Path) -> None:
    """It may belong to the user."""
    (tmp_path / "kube-controller-manager.crt").write_text("mine")
    with pytest.raises(ServingError, match=r"has kube-controller-manager\.crt only"):
        server_of(config_of(serving=ServingConfig(cert_dir=str(tmp_path))))
    assert (tmp_path / "kube-controller-manager.crt").read_text() == "mine"


async def test_a_self_signed_certificate_fits_the_chosen_ciphers() -> None:
    """With suites for RSA only, its key is one."""
    chosen = ServingConfig(
        port=0, bind_address="127.0.0.1", ciphers=("ECDHE-RSA-AES128-GCM-SHA256",)
    )
    async with serving(config_of(serving=chosen)) as url:
        context = trusting()
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        assert await get(f"{url}/healthz", context) == (200, "ok")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("absent", "--tls-cert-file {}/absent.crt: No such file or directory"),
        (
            "mismatch",
            (
                "--tls-cert-file {0}/a.crt with --tls-private-key-file {0}/b.key: "
                "cannot be used: the key does not match the certificate"
            ),
        ),
        ("ca", "--client-ca-file {}/a.key: holds no PEM certificate: "),
        (
            "encrypted",
            (
                "--tls-cert-file {0}/a.crt with --tls-private-key-file {0}/c.key: "
                "cannot be used: the key is encrypted; give one without a passphrase"
            ),
        ),
    ],
)
async def test_files_that_cannot_be_used_are_named(
    tmp_path: Path, change: str, problem: str
) -> None:
    authority = Authority(tmp_path, "ca")
    authority.issue("a", "a")
    authority.issue("b", "b")
    encrypted = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    (tmp_path / "c.key").write_bytes(encrypted)
    pair = {
        "absent": CertificateFiles(f"{tmp_path}/absent.crt", f"{tmp_path}/a.key"),
        "mismatch": CertificateFiles(f"{tmp_path}/a.crt", f"{tmp_path}/b.key"),
        "ca": None,
        "encrypted": CertificateFiles(f"{tmp_path}/a.crt", f"{tmp_path}/c.key"),
    }[change]
    clients = f"{tmp_path}/a.key" if change == "ca" else ""
    with pytest.raises(ServingError) as raised:
        server_of(
            config_of(
                serving=ServingConfig(port=0, certificate=pair),
                authentication=AuthenticationConfig(client_ca_file=clients),
            )
        )
    assert str(raised.value).startswith(problem.format(tmp_path))
    assert "\n" not in str(raised.value)


async def test_a_port_that_is_taken_is_named_with_the_mend() -> None:
    async with serving() as url:
        port = int(url.rpartition(":")[2])
        config = config_of()
        second = server_of(replace(config, serving=replace(config.serving, port=port)))
        with pytest.raises(ServingError) as raised:
            await second.start()
    assert str(raised.value) == (
        f"cannot serve on 127.0.0.1:{port}: the port is in use; choose another "
        "--secure-port or --bind-address, or port 0 to serve nothing"
    )


def test_a_self_signed_certificate_is_for_every_name_it_is_asked_for() -> None:
    pair = self_signed("me", ["localhost", "127.0.0.1"])
    names = (
        x509.load_pem_x509_certificate(pair.certificate)
        .extensions.get_extension_for_class(x509.SubjectAlternativeName)
        .value
    )
    assert [str(each.value) for each in names] == ["localhost", "127.0.0.1"]
