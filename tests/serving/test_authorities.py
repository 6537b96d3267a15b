"""Client certificates: their authorities, and those that are refused."""

import asyncio
import io
import json
import socket
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from controller_manager.observability.logs import make_logger
from controller_manager.options.config import (
    AuthenticationConfig,
    Config,
    RequestHeaderConfig,
)
from controller_manager.serving.authentication import Refused
from controller_manager.serving.authorities import Authorities
from controller_manager.serving.certificates import ServingError
from controller_manager.serving.reviews import AUTHENTICATED, User
from tests.serving import servers
from tests.serving.servers import (
    Authority,
    Reviewed,
    authenticator_of,
    closed,
    config_of,
    get,
    serving,
    trusting,
)

ENDED = datetime(2020, 1, 1, tzinfo=UTC)
_HEADERS = {
    "requestheader-allowed-names": '["front"]',
    "requestheader-username-headers": '["X-Remote-User"]',
    "requestheader-uid-headers": "",
    "requestheader-group-headers": '["X-Remote-Group"]',
    "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
}


def authorities_of(config: AuthenticationConfig) -> tuple[Authorities, io.StringIO]:
    log = io.StringIO()
    return Authorities(config, make_logger(output="json", stream=log)), log


def messages(log: io.StringIO) -> list[tuple[str, str]]:
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    return [(each["msg"], each["err"]) for each in lines]


def chain(pair: tuple[Path, Path], authority: Authority) -> list[bytes]:
    """Return what a handshake verifies, from a client to its authority."""
    return [
        x509.load_pem_x509_certificate(pem).public_bytes(Encoding.DER)
        for pem in (pair[0].read_bytes(), authority.pem)
    ]


async def test_an_expired_client_authority_is_a_warning(tmp_path: Path) -> None:
    """The server starts, and others than its clients are answered."""
    expired = Authority(tmp_path, "expired", until=ENDED)
    config = AuthenticationConfig(client_ca_file=str(expired.path))
    authorities, log = authorities_of(config)
    assert [authorities.bundle(), authorities.bundle()] == [expired.pem] * 2
    assert messages(log) == [
        (
            "A client authority has expired, its certificates are refused",
            f"--client-ca-file {expired.path}: it ended on 2020-01-01",
        )
    ]
    async with serving(config_of(authentication=config)) as url:
        assert await get(f"{url}/healthz") == (200, "ok")


@pytest.mark.parametrize("content", [None, b"", b"no certificate \xe9"])
async def test_a_client_authority_that_cannot_be_read_stays_in_use(
    tmp_path: Path, content: bytes | None
) -> None:
    authority = Authority(tmp_path, "ca")
    pem = authority.pem
    admin = authority.issue("admin", "admin", "system:masters")
    config = closed(authority)
    authorities, log = authorities_of(config.authentication)
    async with serving(config) as url:
        if content is None:
            authority.path.unlink()
        else:
            authority.path.write_bytes(content)
        assert (await get(f"{url}/metrics", trusting(pair=admin)))[0] == 200
        assert await get(f"{url}/healthz") == (200, "ok")
    assert [authorities.bundle(), authorities.bundle()] == [pem] * 2
    (warning,) = messages(log)
    assert warning[0] == "Cannot use the new client authorities, keeping the last ones"
    assert warning[1].startswith(f"--client-ca-file {authority.path}: ")


def test_a_client_authority_must_be_readable_at_the_start(tmp_path: Path) -> None:
    """As upstream: a wrong name of the file is a mistake of the configuration."""
    config = AuthenticationConfig(client_ca_file=str(tmp_path / "absent.crt"))
    with pytest.raises(ServingError, match=r"--client-ca-file .*: No such file"):
        authorities_of(config)


@pytest.mark.parametrize(
    "names",
    ['["front"', "front", '"front"', '{"front":true}', '["front",1]', '[["front"]]'],
)
def test_malformed_names_of_front_proxies_allow_no_front_proxy(
    tmp_path: Path, names: str
) -> None:
    """The settings that were valid before stay in use."""
    proxies = Authority(tmp_path, "proxies")
    given = {"requestheader-client-ca-file": proxies.pem.decode(), **_HEADERS}
    malformed = {**given, "requestheader-allowed-names": names}
    authorities, _ = authorities_of(AuthenticationConfig())
    with pytest.raises(ServingError, match="config map: requestheader-allowed-names"):
        authorities.update_from_config_map(malformed)
    assert authorities.request_header == RequestHeaderConfig("", (), (), (), (), ())
    authorities.update_from_config_map(given)
    valid = RequestHeaderConfig(
        allowed_names=("front",),
        username_headers=("X-Remote-User",),
        group_headers=("X-Remote-Group",),
        extra_prefixes=("X-Remote-Extra-",),
    )
    assert authorities.request_header == valid
    with pytest.raises(ServingError, match="config map: requestheader-allowed-names"):
        authorities.update_from_config_map(malformed)
    assert authorities.request_header == valid


def test_headers_name_no_user_until_the_names_are_known(tmp_path: Path) -> None:
    """A front proxy whose name is not allowed cannot be told from one that is."""
    proxies = Authority(tmp_path, "proxies")
    back = chain(proxies.issue("back", "back"), proxies)
    authenticator = authenticator_of(AuthenticationConfig())
    with pytest.raises(ServingError):
        authenticator.authorities.update_from_config_map(
            {
                "requestheader-client-ca-file": proxies.pem.decode(),
                **_HEADERS,
                "requestheader-allowed-names": '["front"',
            }
        )
    headers = {"x-remote-user": "admin", "x-remote-group": "system:masters"}
    with pytest.raises(Refused):
        asyncio.run(authenticator.authenticate(headers, back))


@pytest.mark.parametrize("until", [None, ENDED])
def test_an_expired_one_names_no_user(tmp_path: Path, until: datetime | None) -> None:
    """A connection may live on for days after its handshake."""
    users = Authority(tmp_path, "users", until=until)
    pair = chain(users.issue("user", "jane", "readers"), users)
    config = AuthenticationConfig(client_ca_file=str(users.path))
    authenticator = authenticator_of(config)
    if until is None:
        user = asyncio.run(authenticator.authenticate({}, pair))
        assert user == User("jane", "", ("readers", AUTHENTICATED))
    else:
        with pytest.raises(Refused, match="not the certificate of a user"):
            asyncio.run(authenticator.authenticate({}, pair))


def test_each_part_of_the_config_map_is_taken_by_itself(tmp_path: Path) -> None:
    users, proxies = Authority(tmp_path, "users"), Authority(tmp_path, "proxies")
    others = Authority(tmp_path, "others")
    authorities, _ = authorities_of(AuthenticationConfig())
    authorities.update_from_config_map(
        {
            "client-ca-file": users.pem.decode(),
            "requestheader-client-ca-file": proxies.pem.decode(),
            **_HEADERS,
        }
    )
    before = authorities.request_header
    malformed: Mapping[str, str] = {
        "client-ca-file": others.pem.decode(),
        "requestheader-client-ca-file": "garbage",
        "requestheader-allowed-names": "garbage",
    }
    with pytest.raises(ServingError) as raised:
        authorities.update_from_config_map(malformed)
    assert [each.partition(": ")[2][:28] for each in str(raised.value).split("; ")] == [
        "requestheader-client-ca-file",
        "requestheader-allowed-names:",
    ]
    authorities.update_from_config_map({**_HEADERS})
    assert (
        authorities.users.current().pem,
        authorities.proxies.current().pem,
        authorities.request_header,
    ) == (others.pem, proxies.pem, before)


def test_names_of_front_proxies_may_be_absent() -> None:
    """Then each front proxy with a certificate of the authority is allowed."""
    authorities, _ = authorities_of(AuthenticationConfig())
    for names in ("", "[]", "null"):
        authorities.update_from_config_map(
            {**_HEADERS, "requestheader-allowed-names": names}
        )
        assert authorities.request_header.allowed_names == ()


VERSIONS = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
GOOD = {"Authorization": "Bearer good"}
HEADERS = {"X-Remote-User": "admin", "X-Remote-Group": "system:masters"}


def with_foreign(
    directory: Path, version: ssl.TLSVersion, until: datetime | None = None
) -> ssl.SSLContext:
    """Return a client with a certificate of an authority that nothing trusts."""
    strange = Authority(directory, "strange", until=until)
    context = trusting(pair=strange.issue("x", "admin", "system:masters"))
    context.minimum_version = context.maximum_version = version
    return context


def wanting(clients: Authority) -> Config:
    return closed(clients, skip_lookup=True)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("until", [None, ENDED])
@pytest.mark.parametrize("headers", [{}, GOOD])
async def test_a_foreign_certificate_is_refused(
    tmp_path: Path,
    version: ssl.TLSVersion,
    until: datetime | None,
    headers: dict[str, str],
) -> None:
    """A bearer token beside it does not count; other clients are answered."""
    config = wanting(Authority(tmp_path, "ca"))
    tls = with_foreign(tmp_path, version, until)
    async with serving(config, client=Reviewed().client) as url:
        for path in ("/metrics", "/healthz"):
            with pytest.raises(aiohttp.ClientError):
                await get(url + path, tls, headers)
        assert (await get(f"{url}/metrics", headers=GOOD))[0] == 200


async def test_the_log_says_why_a_certificate_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With ``--v=4``: a client of TLS 1.3 sees only the end of the connection."""
    log = io.StringIO()
    logger = make_logger(verbosity=4, stream=log)
    monkeypatch.setattr(servers, "silent_logger", lambda: logger)
    config = wanting(Authority(tmp_path, "ca"))
    tls = with_foreign(tmp_path, ssl.TLSVersion.TLSv1_3)
    async with serving(config) as url:
        with pytest.raises(aiohttp.ClientError):
            await get(f"{url}/metrics", tls)
    assert '"TLS handshake failed" err="' in log.getvalue()
    assert "unable to get local issuer certificate" in log.getvalue()


async def test_without_authorities_no_certificate_is_asked(tmp_path: Path) -> None:
    """So the token of a client that has one counts."""
    tls = with_foreign(tmp_path, ssl.TLSVersion.TLSv1_3)
    async with serving(closed(), client=Reviewed().client) as url:
        assert (await get(f"{url}/metrics", tls, GOOD))[0] == 200
        assert (await get(f"{url}/metrics", tls))[0] == 403


async def test_a_foreign_certificate_is_that_of_no_front_proxy(tmp_path: Path) -> None:
    config = closed(proxies=Authority(tmp_path, "proxies"), skip_lookup=True)
    tls = with_foreign(tmp_path, ssl.TLSVersion.TLSv1_3)
    async with serving(config) as url:
        with pytest.raises(aiohttp.ClientError):
            await get(f"{url}/metrics", tls, HEADERS)


async def test_a_certificate_that_has_ended_is_refused(tmp_path: Path) -> None:
    clients = Authority(tmp_path, "ca")
    clients._until = ENDED
    ended = clients.issue("ended", "admin", "system:masters")
    async with serving(wanting(clients)) as url:
        with pytest.raises(aiohttp.ClientError):
            await get(f"{url}/metrics", trusting(pair=ended))


REQUEST = b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"


def status_of(
    port: int, context: ssl.SSLContext, session: ssl.SSLSession | None
) -> tuple[int, bool, ssl.SSLSession | None]:
    with (
        socket.create_connection(("127.0.0.1", port), timeout=10) as plain,
        context.wrap_socket(plain, session=session) as wrapped,
    ):
        wrapped.sendall(REQUEST)
        answer = b"".join(iter(lambda: wrapped.recv(65536), b""))
        status = int(answer.split()[1])
        session, reused = wrapped.session, bool(wrapped.session_reused)
        # A server forgets the session of a connection that ends without this.
        wrapped.unwrap()
        return status, reused, session


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_client_that_offers_an_old_session_is_recognised(
    tmp_path: Path, version: ssl.TLSVersion
) -> None:
    """By a full handshake, since a resumed session has no verified chain."""
    authority = Authority(tmp_path, "ca")
    context = trusting(pair=authority.issue("admin", "admin", "system:masters"))
    context.minimum_version = context.maximum_version = version
    async with serving(closed(authority)) as url:
        port = int(url.rpartition(":")[2])
        session, answers = None, []
        for _ in range(3):
            status, reused, session = await asyncio.to_thread(
                status_of, port, context, session
            )
            answers.append((status, reused))
    assert answers == [(200, False)] * 3
