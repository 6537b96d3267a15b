"""A development cluster: API server, nodes, kubeconfig, and controllers beside it."""

import asyncio
import base64
import os
import random
import secrets
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from random import SystemRandom
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Self

import yaml
from prometheus_client import CollectorRegistry

from controller_manager.client.builder import Connections
from controller_manager.client.identity.credentials import Credentials
from controller_manager.client.identity.tls import TLSMaterial
from controller_manager.client.wire.http import HTTPTransport
from controller_manager.clock import Clock, SystemClock
from controller_manager.devcluster.apiserver.security import User
from controller_manager.devcluster.kubelet.nodes import Nodes
from controller_manager.manager.manager import ControllerManager
from controller_manager.observability.logs import Logger, silent_logger
from controller_manager.options.config import Config
from controller_manager.options.gates import FeatureGates
from controller_manager.options.parsing import parse
from controller_manager.runtime.registry import Registry
from controller_manager.serving.certificates import ServingError
from controller_manager.version import COMMAND_USER_AGENT, USER_AGENT

from . import admission, http_server
from .aggregator import FRONT_PROXY, Aggregator, add_authorities
from .controlplane import (
    MANAGER,
    APIServer,
    add_kubernetes_service,
    add_system_namespaces,
    keep_system_namespaces,
)
from .inmemory import InMemoryTransport
from .manifests import Manifest, apply_manifests
from .settings import ServerSettings, Settings
from .snapshot import DataFile, Saving
from .storage import Storage, load

# A development cluster: API server, nodes, kubeconfig.

ADMIN: Final = User(
    "kubernetes-admin", groups=("system:masters", "system:authenticated")
)

_NAME: Final = "devcluster"
_MARK: Final = "# Written by controller-manager devcluster, and removed at its end.\n"


@dataclass(frozen=True, kw_only=True)
class ClusterOptions(ServerSettings):
    """The settings of a cluster, and what was made of the others.

    The plugin ServiceAccount needs controllers that make service accounts.
    """

    port_remedy: str = "choose another --port"
    build: Registry = field(default_factory=lambda: Registry(()))
    """The controllers that have roles, and can run beside the cluster."""
    features: FeatureGates = field(default_factory=FeatureGates)
    admission_plugins: frozenset[str] = admission.WITHOUT_ACCOUNTS
    keys: http_server.ClusterKeys = field(
        default_factory=http_server.ClusterKeys.generate
    )
    data: DataFile | None = None
    """Where the state is kept, which is open; the cluster closes it at its end."""


class KubeconfigError(Exception):
    """A kubeconfig cannot be written; the message says why."""


def check_kubeconfig(path: Path) -> None:
    """Check that a development cluster may write its kubeconfig to `path`.

    The file of an earlier cluster is replaced; any other file belongs to a user and
    stays. Raises KubeconfigError.
    """
    flag = f"--write-kubeconfig {path}"
    if not path.parent.is_dir():
        raise KubeconfigError(f"{flag}: there is no directory {path.parent}")
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return
    except (OSError, UnicodeDecodeError) as error:
        raise KubeconfigError(f"{flag}: cannot be replaced: {error}") from error
    if text and not text.startswith(_MARK):
        raise KubeconfigError(
            f"{flag}: the file exists and is not a development cluster's; "
            "name another, or remove it"
        )


def remove_kubeconfig(path: Path) -> None:
    """Remove the kubeconfig that an earlier, killed cluster has left at `path`.

    Programs that wait for the file then wait for the new one. Raises KubeconfigError
    as :func:`check_kubeconfig` does, and OSError.
    """
    check_kubeconfig(path)
    path.unlink(missing_ok=True)


class DevCluster:
    """A cluster that runs while it is entered (``async with``)."""

    def __init__(
        self,
        options: ClusterOptions,
        clock: Clock,
        logger: Logger | None = None,
        intercept: http_server.Interceptor | None = None,
        observe: http_server.Observer | None = None,
    ) -> None:
        """Take the settings; nothing listens yet.

        `intercept` sees every request that arrives over HTTP, `observe` its answer.
        Raises RangeError for a wrong range of service addresses, and DataError if the
        state cannot be read.
        """
        self._options = options
        self.build = options.build
        self._clock = clock
        self._token = secrets.token_urlsafe(32)
        self._keys = options.keys
        self._stack = AsyncExitStack()
        storage, data, self._saving = Storage(), options.data, None
        if data is not None:
            self._token, self._keys = data.admin_token, data.keys
            load(storage, data.state())
            self._saving = Saving(data, storage, clock, logger or silent_logger())
        self._certificate = self._keys.authority
        self.server = APIServer(
            clock=clock,
            rng=SystemRandom(),
            users={self._token: ADMIN},
            rbac=options.rbac,
            build=options.build,
            features=options.features,
            admission_plugins=options.admission_plugins,
            service_cluster_ip_range=options.service_cluster_ip_range,
            logger=logger,
            storage=storage,
        )
        self.server.know_everybody()
        self._http = http_server.HTTPServer(
            self.server,
            options.port,
            self._tls(),
            intercept=intercept,
            observe=observe,
            remedy=options.port_remedy,
        )

    def _tls(self) -> ssl.SSLContext:
        context = self._certificate.ssl_context()
        context.verify_mode = ssl.CERT_OPTIONAL
        # No client resumes a session, and tickets take a sixth of the handshake.
        context.num_tickets = 0
        context.load_verify_locations(cadata=self._certificate.certificate.decode())
        return context

    async def __aenter__(self) -> Self:
        """Listen, and start the nodes."""
        if self._saving is not None:
            self._stack.push_async_callback(self._saving.close)
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def _start(self) -> None:
        add_system_namespaces(self.server.objects)
        key = self._keys.account_key
        self.server.sign_account_tokens(key)
        self.server.accept_account_tokens(key.public_key())
        nodes = Nodes(
            self.server,
            self._clock,
            count=self._options.nodes,
            start_delay=self._options.pod_start_delay,
            grace_scale=self._options.grace_scale,
            provisioner=not self._options.without_provisioner,
            attacher=not self._options.without_attacher,
            resizer=not self._options.without_resizer,
        )
        nodes.register()
        await self._listen()
        add_kubernetes_service(self.server.objects, self._http.host, self._http.port)
        self._stack.push_async_callback(self._http.close)
        namespaces = keep_system_namespaces(self.server.objects)
        add_authorities(self.server.objects, self._certificate)
        pair = http_server.client_certificate(self._certificate, FRONT_PROXY)
        aggregator = Aggregator(self.server, pair)
        works = {
            "nodes": nodes.run(),
            "namespaces": namespaces,
            "aggregator": aggregator.run(),
        }
        if self._saving is not None:
            works["saving"] = self._saving.run()
        for name, work in works.items():
            task = asyncio.create_task(work, name=name)
            self._stack.push_async_callback(_cancelled, task)

    async def create(
        self,
        manifests: Sequence[Manifest],
        created: Callable[[Manifest], None] = lambda _: None,
    ) -> None:
        """Create objects as the administrator, in order, and report each.

        Raises ManifestError with the API server's message if it refuses one.
        """
        transport = InMemoryTransport(self.server, self._token, COMMAND_USER_AGENT)
        await apply_manifests(transport, manifests, created)

    async def _listen(self) -> None:
        """Listen; a cluster that is started again takes its port if it may have any."""
        data = self._options.data
        if data is None or self._options.port:
            await self._http.start()
        else:
            self._http.port = data.port
            try:
                await self._http.start()
            except ServingError:
                self._http.port = 0
                await self._http.start()
        if data is not None:
            data.port = self._http.port

    async def __aexit__(self, *_: object) -> None:
        """Stop the nodes and stop listening."""
        await self._stack.aclose()

    @property
    def url(self) -> str:
        """The URL of the API server."""
        return self._http.url

    @property
    def http(self) -> http_server.HTTPServer:
        """The HTTPS server, which may be closed and started again."""
        return self._http

    def credentials(self) -> Credentials:
        """Return the administrator's credentials for an HTTP transport."""
        return Credentials(
            self.url,
            clock=self._clock,
            ca_data=self._certificate.certificate,
            token=self._token,
        )

    def manager_credentials(self) -> Credentials:
        """Return the controller manager's credentials for an HTTP transport."""
        pair = http_server.client_certificate(self._certificate, MANAGER)
        return Credentials(
            self.url,
            clock=self._clock,
            tls=TLSMaterial(
                authority=self._certificate.certificate,
                certificate=pair.certificate,
                key=pair.key,
            ),
        )

    def kubeconfig(self) -> dict[str, Any]:
        """Return a kubeconfig with the users administrator and controller manager.

        The current context is the administrator's.
        """
        authority = base64.b64encode(self._certificate.certificate).decode()
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": _NAME,
            "clusters": [
                {
                    "name": _NAME,
                    "cluster": {
                        "server": self.url,
                        "certificate-authority-data": authority,
                    },
                }
            ],
            "users": [
                {"name": "admin", "user": {"token": self._token}},
                {"name": MANAGER, "user": self._manager()},
            ],
            "contexts": [
                {"name": _NAME, "context": {"cluster": _NAME, "user": "admin"}},
                {"name": MANAGER, "context": {"cluster": _NAME, "user": MANAGER}},
            ],
        }

    def _manager(self) -> dict[str, str]:
        pair = http_server.client_certificate(self._certificate, MANAGER)
        return {
            "client-certificate-data": base64.b64encode(pair.certificate).decode(),
            "client-key-data": base64.b64encode(pair.key).decode(),
        }

    def write_kubeconfig(self, path: Path) -> None:
        """Write the kubeconfig; only its owner can read it.

        It is written in one step, so that a program that waits for the file never reads
        a part of it. Raises KubeconfigError as :func:`check_kubeconfig` does, and
        OSError.
        """
        check_kubeconfig(path)
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(_MARK)
            yaml.safe_dump(self.kubeconfig(), file, sort_keys=False)
        draft.replace(path)


async def _cancelled(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


# What a cluster starts with, and the controllers beside it in the same process.


def embedded_config(
    build: Registry,
    secure_port: int,
    verbosity: int = 0,
    feature_gates: Sequence[str] = (),
    more: Mapping[str, str] = MappingProxyType({}),
) -> Config:
    """Return the config of a build's controllers beside their own API server.

    It is parsed from flags, so that /configz and /flagz show all settings. The port is
    that of the controllers' endpoints, 0 for none; `more` are further flags. Raises
    OptionsError for a feature gate that cannot be set.
    """
    flags = {
        "authentication-skip-lookup": "true",
        "bind-address": "127.0.0.1",
        "kube-api-qps": "-1",  # no limit
        "leader-elect": "false",
        "secure-port": str(secure_port),
        "use-service-account-credentials": "true",
        "v": str(verbosity),
        **more,
    }
    given: dict[str, Sequence[str]] = {name: (text,) for name, text in flags.items()}
    if feature_gates:
        given["feature-gates"] = feature_gates
    return parse(given, build)


_OF_SERVER: Final = fields(ServerSettings)
_OF_ACCOUNTS: Final = frozenset(
    ("serviceaccount-controller", "root-ca-certificate-publisher-controller")
)
"""Controllers that create the objects that the plugin ServiceAccount needs."""


class Prepared(NamedTuple):
    """What a cluster and its controllers start with."""

    options: ClusterOptions
    config: Config
    directory: Path
    """A temporary directory, which has the keys."""


@contextmanager
def prepared(
    settings: Settings, build: Registry, *, secure_port: int, port_remedy: str
) -> Iterator[Prepared]:
    """Open the data file, write the keys, and check the other settings.

    The files exist while this is entered. Raises DataError, OptionsError, PluginError.
    """
    with ExitStack() as stack:
        file = None
        if settings.data is not None:
            file = stack.enter_context(DataFile.open(Path(settings.data)))
        keys = file.keys if file is not None else http_server.ClusterKeys.generate()
        temporary = TemporaryDirectory(prefix="devcluster-")
        directory = Path(stack.enter_context(temporary))
        flags = keys.write(directory)
        if settings.controllers:
            flags["controllers"] = ",".join(settings.controllers)
        config = embedded_config(
            build,
            secure_port,
            max(settings.verbosity, 0),
            settings.feature_gates,
            flags,
        )
        options = ClusterOptions(
            **{each.name: getattr(settings, each.name) for each in _OF_SERVER},
            port_remedy=port_remedy,
            build=build,
            features=config.features,
            admission_plugins=_plugins(settings, build),
            keys=keys,
            data=file,
        )
        yield Prepared(options, config, directory)


def _plugins(settings: Settings, build: Registry) -> frozenset[str]:
    """Return the admission plugins that are on; raises PluginError."""
    running = {each.name for each in build.select(settings.controllers)}
    return admission.chosen_plugins(
        settings.enable_admission_plugins,
        settings.disable_admission_plugins,
        admission.ON_BY_DEFAULT
        if running >= _OF_ACCOUNTS
        else admission.WITHOUT_ACCOUNTS,
    )


@asynccontextmanager
async def controllers_over_https(
    cluster: DevCluster, config: Config, logger: Logger
) -> AsyncIterator[ControllerManager]:
    """Run the controllers of the cluster's build over HTTPS, until left.

    As under kubeadm, the manager authenticates with its certificate, and each
    controller as its own service account.
    """
    credentials = cluster.manager_credentials()
    transport = HTTPTransport(credentials, USER_AGENT)
    anonymous = HTTPTransport(credentials.anonymous(), USER_AGENT)
    connections = Connections(
        transport, anonymous, transport, transport, root_ca=credentials.authority()
    )
    try:
        async with running(
            cluster.build, config, connections, SystemClock(), logger
        ) as manager:
            yield manager
    finally:
        await anonymous.close()
        await transport.close()


@asynccontextmanager
async def controllers_in_memory(
    cluster: DevCluster, config: Config, clock: Clock, logger: Logger
) -> AsyncIterator[ControllerManager]:
    """Run the controllers of the cluster's build without the network, until left.

    They have the same identities as over HTTPS. The interceptor between the network and
    the server does not see their requests.
    """
    token = secrets.token_urlsafe(32)
    cluster.server.tokens.add(token, User(MANAGER))
    connections = Connections(
        InMemoryTransport(cluster.server, token, USER_AGENT),
        InMemoryTransport(cluster.server, user_agent=USER_AGENT),
        root_ca=cluster.credentials().authority(),
    )
    async with running(cluster.build, config, connections, clock, logger) as manager:
        yield manager


@asynccontextmanager
async def running(
    build: Registry,
    config: Config,
    connections: Connections,
    clock: Clock,
    logger: Logger,
    *,
    rng: random.Random | None = None,
    registry: CollectorRegistry | None = None,
) -> AsyncIterator[ControllerManager]:
    """Run the controllers until left; they have started when this is entered.

    Their metrics are in `registry`. `rng` is for jitter and names.
    """
    manager = ControllerManager(
        config,
        connections,
        clock=clock,
        rng=rng or random.Random(),  # noqa: S311 - jitter and names
        logger=logger,
        build=build,
        registry=registry,
    )
    stop = asyncio.Event()
    running = asyncio.create_task(manager.run(stop), name="controller-manager")
    starting = asyncio.create_task(manager.started.wait())
    try:
        await asyncio.wait((running, starting), return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
        yield manager
    finally:
        starting.cancel()
        stop.set()
        await running
