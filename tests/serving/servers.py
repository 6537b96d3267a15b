"""Servers, certificate authorities and clients for the tests of `serving`."""

import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from prometheus_client import CollectorRegistry, Gauge

from controller_manager.client.identity.trust import set_verify_flags
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.transport import Request
from controller_manager.clock import SystemClock
from controller_manager.devcluster.apiserver.security import User
from controller_manager.observability.logs import silent_logger
from controller_manager.options.config import (
    AuthenticationConfig,
    AuthorizationConfig,
    Config,
    RequestHeaderConfig,
    ServingConfig,
)
from controller_manager.serving.answers import Pieces
from controller_manager.serving.authentication import Authenticator
from controller_manager.serving.authorization import Authorizer
from controller_manager.serving.certificates import Certificates
from controller_manager.serving.connection import ConnectionLimits
from controller_manager.serving.health import HealthCheck
from controller_manager.serving.main_loop import MainLoop, SameLoop
from controller_manager.serving.pages import DebugPages, Pages
from controller_manager.serving.server import Server
from tests.clusters import Cluster

WELL: Mapping[str, HealthCheck] = {"a": lambda: None, "b": lambda: None}
ILL: Mapping[str, HealthCheck] = {"a": lambda: None, "b": lambda: "has stopped"}
OPEN = AuthorizationConfig(always_allow_paths=("/*",))
STARTED = datetime(2026, 1, 1, tzinfo=UTC)


def config_of(**parts: Any) -> Config:
    parts.setdefault("serving", ServingConfig(port=0, bind_address="127.0.0.1"))
    parts.setdefault("authorization", OPEN)
    return Config(**parts)


def closed(
    users: "Authority | None" = None,
    proxies: "Authority | None" = None,
    names: tuple[str, ...] = (),
    *,
    skip_lookup: bool = False,
) -> Config:
    """Return a config in which no path is open, with these authorities."""
    header = RequestHeaderConfig()
    if proxies:
        header = RequestHeaderConfig(
            client_ca_file=str(proxies.path), allowed_names=names
        )
    authentication = AuthenticationConfig(
        client_ca_file=str(users.path) if users else "",
        request_header=header,
        skip_lookup=skip_lookup,
    )
    return config_of(authentication=authentication, authorization=AuthorizationConfig())


def authenticator_of(
    config: AuthenticationConfig, client: Client | None = None
) -> Authenticator:
    return Authenticator(config, client, clock=SystemClock(), logger=silent_logger())


def server_of(
    config: Config,
    checks: Mapping[str, HealthCheck] = WELL,
    client: Client | None = None,
    limits: ConnectionLimits | None = None,
    debug: Mapping[str, DebugPages] | None = None,
    main: MainLoop | None = None,
    beside: Mapping[str, HealthCheck] | None = None,
) -> Server:
    clock, logger = SystemClock(), silent_logger()
    authenticator = authenticator_of(config.authentication, client)
    registry = CollectorRegistry()
    scrapes = Gauge("scrapes", "So far.", registry=registry)
    pages = Pages(
        lambda: checks,
        lambda: checks,
        registry,
        scrapes.inc,
        lambda: {"some-controller": {"page": shown_page}} if debug is None else debug,
        lambda name, key: [Shown(key)] if name == "some-controller" else None,
        STARTED,
        main or SameLoop(),
        lambda: beside or {},
    )
    return Server(
        config,
        pages,
        Certificates(config.serving, authenticator.authorities.bundle, logger=logger),
        authenticator,
        Authorizer(config.authorization, client, clock=clock, logger=logger),
        clock,
        logger,
        limits,
    )


@asynccontextmanager
async def serving(
    config: Config | None = None,
    checks: Mapping[str, HealthCheck] = WELL,
    client: Client | None = None,
    limits: ConnectionLimits | None = None,
    debug: Mapping[str, DebugPages] | None = None,
    main: MainLoop | None = None,
    beside: Mapping[str, HealthCheck] | None = None,
) -> AsyncIterator[str]:
    server = server_of(
        config or config_of(), checks, client, limits, debug, main, beside
    )
    await server.start()
    yield f"https://127.0.0.1:{server.port}"
    await server.close()


def trusting(
    authority: bytes | None = None, pair: tuple[Path, Path] | None = None
) -> ssl.SSLContext:
    # The authorities of the system, which a default context loads, take 40 ms.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    set_verify_flags(context)  # as Go's clients do, on any Python
    if authority is None:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    else:
        context.load_verify_locations(cadata=authority.decode())
    if pair is not None:
        context.load_cert_chain(*pair)
    return context


async def get(
    url: str,
    tls: ssl.SSLContext | None = None,
    headers: Mapping[str, str] | None = None,
) -> tuple[int, str]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(url, ssl=tls or trusting(), headers=headers) as answer,
    ):
        return answer.status, await answer.text()


class Shown(msgspec.Struct):
    shown: str


def shown_page(query: Mapping[str, list[str]]) -> tuple[str, Pieces]:
    """Return the query of a request as the debug page of a controller."""
    text = repr(sorted(query.items())).encode()
    return "text/vnd.graphviz", (each for each in (text,))


class Authority:
    def __init__(
        self,
        directory: Path,
        name: str,
        issuer: "Authority | None" = None,
        until: datetime | None = None,
    ) -> None:
        self._until = until
        self.path = directory / f"{name}.crt"
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        signer = issuer or self
        certificate = signer._certificate(self._name, self._key.public_key(), ca=True)
        self.path.write_bytes(certificate)

    @property
    def pem(self) -> bytes:
        return self.path.read_bytes()

    def _certificate(self, subject: x509.Name, key: Any, *, ca: bool) -> bytes:
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before((self._until or now) - timedelta(hours=1))
            .not_valid_after(self._until or now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), ca)
            .add_extension(
                x509.SubjectAlternativeName([x509.DNSName("served.example")]),
                critical=False,
            )
        )
        made = builder.sign(self._key, hashes.SHA256())
        return made.public_bytes(serialization.Encoding.PEM)

    def issue(self, file: str, name: str, *groups: str) -> tuple[Path, Path]:
        """Write a certificate and its key; return the files."""
        key = ec.generate_private_key(ec.SECP256R1())
        attributes = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
        attributes += [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in groups
        ]
        certificate = self._directory / f"{file}.crt"
        key_file = self._directory / f"{file}.key"
        pem = self._certificate(x509.Name(attributes), key.public_key(), ca=False)
        certificate.write_bytes(pem)
        key_file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return certificate, key_file


METRICS_READER: list[dict[str, Any]] = [
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "metrics-reader"},
        "rules": [{"nonResourceURLs": ["/metrics", "/no*"], "verbs": ["get"]}],
    },
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "prometheus"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "metrics-reader",
        },
        "subjects": [{"kind": "User", "name": "prometheus"}],
    },
]


class Reviewed(Cluster):
    """An API server with two users; one of them may read /metrics."""

    def __init__(self) -> None:
        super().__init__(rbac=True)
        self.asked: list[str] = []
        self.server.tokens.add("good", User("prometheus"))
        self.server.tokens.add("poor", User("stranger"))
        for obj in METRICS_READER:
            kind = self.server.catalogue.of(obj["apiVersion"], obj["kind"])
            assert kind is not None
            self.server.objects.create(kind, "", obj)
        handle = self.server.handle

        async def counted(request: Request) -> Any:
            self.asked.append(request.path.rpartition("/")[2])
            return await handle(request)

        self.server.handle = counted  # type: ignore[method-assign]
