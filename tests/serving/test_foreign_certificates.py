"""A client certificate that does not verify, and which ones the server asks for."""

import ssl
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509
from OpenSSL import SSL

from controller_manager.options.config import (
    AuthenticationConfig,
    AuthorizationConfig,
    CertificateFiles,
    RequestHeaderConfig,
    ServingConfig,
)
from tests.serving.servers import (
    Authority,
    Reviewed,
    config_of,
    get,
    server_of,
    serving,
    trusting,
)

ENDED = datetime(2020, 1, 1, tzinfo=UTC)
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


def wanting(clients: Authority) -> AuthenticationConfig:
    return AuthenticationConfig(client_ca_file=str(clients.path), skip_lookup=True)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("until", [None, ENDED])
async def test_a_foreign_certificate_does_not_shut_out_a_token(
    tmp_path: Path, version: ssl.TLSVersion, until: datetime | None
) -> None:
    """Nor does it name a user: without a token each path is refused, as upstream."""
    config = config_of(
        authentication=wanting(Authority(tmp_path, "ca")),
        authorization=AuthorizationConfig(),
    )
    tls = with_foreign(tmp_path, version, until)
    async with serving(config, client=Reviewed().client) as url:
        statuses = [
            (await get(url + path, tls, headers))[0]
            for path, headers in (
                ("/metrics", GOOD),
                ("/metrics", {"Authorization": "Bearer wrong"}),
                ("/metrics", {}),
                ("/healthz", {}),
            )
        ]
    assert statuses == [200, 401, 401, 401]


async def test_a_foreign_certificate_is_that_of_no_front_proxy(tmp_path: Path) -> None:
    """The headers of its requests are not read."""
    proxies = Authority(tmp_path, "proxies")
    config = config_of(
        authentication=AuthenticationConfig(
            request_header=RequestHeaderConfig(client_ca_file=str(proxies.path)),
            skip_lookup=True,
        ),
        authorization=AuthorizationConfig(),
    )
    tls = with_foreign(tmp_path, ssl.TLSVersion.TLSv1_3)
    async with serving(config) as url:
        assert (await get(f"{url}/metrics", tls, HEADERS))[0] == 401


async def test_a_certificate_that_has_ended_names_no_user(tmp_path: Path) -> None:
    """Also if a known authority has signed it."""
    clients = Authority(tmp_path, "ca")
    clients._until = ENDED
    ended = clients.issue("ended", "admin", "system:masters")
    config = config_of(
        authentication=wanting(clients), authorization=AuthorizationConfig()
    )
    async with serving(config) as url:
        assert (await get(f"{url}/metrics", trusting(pair=ended)))[0] == 401


@pytest.mark.parametrize("named", [False, True])
async def test_the_server_names_the_authorities_that_it_accepts(
    tmp_path: Path, *, named: bool
) -> None:
    """Of users and of front proxies, whichever of its certificates it shows."""
    clients, proxies = Authority(tmp_path, "users"), Authority(tmp_path, "proxies")
    pair = [str(each) for each in clients.issue("serving", "serving")]
    given = CertificateFiles(pair[0], pair[1], names=("served.example",))
    config = config_of(
        serving=ServingConfig(
            port=0, bind_address="127.0.0.1", sni=(given,) if named else ()
        ),
        authentication=AuthenticationConfig(
            client_ca_file=str(clients.path),
            request_header=RequestHeaderConfig(client_ca_file=str(proxies.path)),
        ),
    )
    server = server_of(config)
    client = SSL.Connection(SSL.Context(SSL.TLS_CLIENT_METHOD), None)
    client.set_connect_state()
    client.set_tlsext_host_name(b"served.example")
    tls = server._certificates.for_connection()
    for _ in range(4):
        for source, target in ((client, tls), (tls, client)):
            with suppress(SSL.WantReadError):
                source.do_handshake()
            with suppress(SSL.WantReadError):
                target.bio_write(source.bio_read(65536))
    wanted = [
        x509.load_pem_x509_certificate(each.pem).subject for each in (clients, proxies)
    ]
    assert client.get_client_ca_list(as_cryptography=True) == wanted
