"""A manager of your controllers, on a cluster in memory and on virtual time."""

import asyncio
import itertools
import random
import re
from collections import Counter
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import ExitStack, aclosing
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any, Final

from prometheus_client import CollectorRegistry

from controller_manager.api.apiextensions.definition import Definition
from controller_manager.api.apiextensions.v1 import CUSTOM_RESOURCE_DEFINITIONS
from controller_manager.client.builder import Connections
from controller_manager.client.identity.service_accounts import NAMESPACE
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.errors import (
    NotSent,
    TransportError,
    error_from_response,
)
from controller_manager.client.rest.transport import Request, Response
from controller_manager.clock import Clock, LoopClock
from controller_manager.devcluster.apiserver.security import (
    AUTHENTICATED,
    User,
    account_groups,
)
from controller_manager.devcluster.cluster import ADMIN, embedded_config
from controller_manager.devcluster.controlplane import (
    MANAGER,
    APIServer,
    add_system_namespaces,
)
from controller_manager.devcluster.http_server import ConnectionCutError
from controller_manager.devcluster.inmemory import InMemoryTransport, StreamingResponse
from controller_manager.devcluster.manifests import (
    ManifestError,
    apply_manifests,
    read_manifests,
)
from controller_manager.devcluster.webhook import SERVED_HERE
from controller_manager.manager.manager import ControllerManager
from controller_manager.observability.defects import Defects
from controller_manager.observability.exposition import expose
from controller_manager.observability.logs import make_logger
from controller_manager.options.options import OptionsError
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.reconciler import with_watched
from controller_manager.runtime.registry import Registry, RegistryError
from controller_manager.webhooks.registration import Registration
from controller_manager.webhooks.reviews import Reviews

from . import ClusterError
from .faults import FaultControl, Faults, forget_history, thawed
from .requests import Ending, Fault, FaultLayer, RequestFilter

_EPOCH: Final = datetime(2026, 1, 1, tzinfo=UTC)
_VERBOSITY: Final = 4
_QUIET: Final = 1.0
"""Seconds in which nothing happens once the controllers have settled."""

_PATIENCE: Final = 60
"""The most such spans in which they settle."""

_MOST_WRITES: Final = 100
"""The most equal writes of a controller at one moment of the clock."""

_NUMBERS: Final = itertools.count(1)
"""Each manager has a host of its own for its webhooks."""

_REFUSAL: Final = re.compile(
    r'User ".*" cannot (?P<verb>\w+) resource "(?P<resource>[^"]+)"'
    r' in API group "(?P<group>[^"]*)"'
)


class VirtualManager:
    """Your controllers in a manager, with an API server in memory of their own.

    Nothing waits: an hour of the clock takes milliseconds. Nothing else runs, so a
    deployment gets no pods, and an owner that is gone leaves its dependents. Each
    controller may do what the permissions of its descriptor allow, and reads the fields
    that it declares; a test in which it tries more fails. Each other cluster that they
    name has an API server, too, with the rights of the controllers there.
    """

    def __init__(self, controllers: Sequence[Descriptor]) -> None:
        """Take the controllers; nothing runs yet. Raises ClusterError."""
        try:
            self._build = Registry([_with_watched(each) for each in controllers])
        except RegistryError as error:
            raise ClusterError(str(error)) from None
        self.clock: Final = LoopClock(_EPOCH)
        """The clock of servers and controllers; it begins with the year 2026."""
        self._metrics = CollectorRegistry()
        self._log = StringIO()
        self._rng = random.Random(1)  # noqa: S311 - names and jitter
        self._own = _Cluster(self._build, self.clock, self._rng)
        self._others = {name: self._other(name) for name in self._build.clusters}
        self.faults: Final = self._own.faults
        """Faults between your controllers and the API server, not `client`."""
        self.client: Final = Client(
            self._own.admin,
            self.clock,
            field_manager="test",
            clusters={
                name: Client(each.admin, self.clock)
                for name, each in self._others.items()
            },
        )
        """A client of the administrator, for the test; it reaches other clusters."""
        self._host = f"webhooks-{next(_NUMBERS)}.in-memory"
        url = f"https://{self._host}"
        self._registration = Registration(self._build, NAMESPACE, url)
        defects = Defects(make_logger(verbosity=_VERBOSITY, stream=self._log))
        self._reviews = Reviews(self._build, self._client_of, defects)
        self._stack = ExitStack()
        self._running: ControllerManager | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()

    def _other(self, name: str) -> "_Cluster":
        of_cluster = [each.in_cluster(name) for each in self._build.descriptors]
        return _Cluster(Registry(of_cluster), self.clock, self._rng, name)

    @property
    def _clusters(self) -> "tuple[_Cluster, ...]":
        return (self._own, *self._others.values())

    def faults_in(self, cluster: str) -> Faults:
        """Return the faults between your controllers and another cluster."""
        return self._others[cluster].faults

    async def create_manifests(self, *files: Path | str, cluster: str = "") -> None:
        """Create the objects of YAML files, or of directories with such files.

        They are created in the first cluster, or in the one that `cluster` names.
        Raises ClusterError for an object that is not valid.
        """
        where = self._others[cluster] if cluster else self._own
        try:
            manifests = read_manifests([*map(Path, files)])
            await apply_manifests(where.admin, manifests, lambda _: None)
        except ManifestError as error:
            raise ClusterError(str(error)) from None
        if self._running is not None:
            await self._register()

    async def define(self, *definitions: Definition[Any]) -> None:
        """Create custom resource definitions that are declared beside their classes."""
        for each in definitions:
            await self.client.apply(CUSTOM_RESOURCE_DEFINITIONS, each.manifest())

    async def _register(self) -> None:
        """Tell the API server of the webhooks; raises ClusterError if it refuses."""
        found = await self._registration.read(self.client)
        problems = await self._registration.write(self.client, found, b"")
        if problems:
            raise ClusterError("; ".join(problems))

    async def start(self, *flags: str) -> None:
        """Start the controllers with flags, such as ``--example=1``.

        Their caches are synced once this returns, unless faults prevent that for a
        minute of the clock, and the API server calls their webhooks. Raises
        ClusterError for a wrong flag.
        """
        if self._running is not None:
            msg = "the manager runs already; stop it before it is started again"
            raise RuntimeError(msg)
        pairs = (each.removeprefix("--").partition("=") for each in flags)
        more = {name: value or "true" for name, _, value in pairs}
        given = {"use-service-account-credentials": "false", **more}
        if self._build.has_webhooks:
            given["webhook-port"] = "0"  # they are called without the network
        try:
            config = embedded_config(self._build, 0, _VERBOSITY, (), given)
        except OptionsError as error:
            raise ClusterError("; ".join(error.problems)) from None
        self._metrics = CollectorRegistry()
        manager = ControllerManager(
            config,
            self._own.connections(self._others),
            clock=self.clock,
            rng=self._rng,
            logger=make_logger(verbosity=_VERBOSITY, stream=self._log),
            build=self._build,
            registry=self._metrics,
        )
        self._stack.enter_context(thawed())
        SERVED_HERE[self._host] = self._reviews.answer
        self._stack.callback(SERVED_HERE.pop, self._host)
        await self._register()
        self._stopping.clear()
        self._task = asyncio.create_task(manager.run(self._stopping))
        starting = asyncio.create_task(manager.started.wait())
        await asyncio.wait(
            (self._task, starting),
            timeout=_PATIENCE * _QUIET,
            return_when=asyncio.FIRST_COMPLETED,
        )
        starting.cancel()
        if self._task.done():
            await self.stop()
        self._running = manager

    async def stop(self) -> None:
        """Stop the controllers, if they run; the objects stay."""
        self._stopping.set()
        await self._ended()

    async def crash(self) -> None:
        """End the controllers at once, as a killed process ends; the objects stay.

        No sync goes on, and no more request reaches an API server.
        """
        servers = [each.server for each in self._clusters]
        for each in servers:
            each.is_left = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        for each in servers:
            each.is_left = False
        await self._ended()

    async def _ended(self) -> None:
        task, self._task, self._running = self._task, None, None
        with self._stack:
            if task is not None:
                await task

    async def settle(self, seconds: float = 0.0) -> None:
        """Let some seconds pass, and go on until the controllers have nothing to do.

        Starts the controllers without flags if they do not run. Keys that are to be
        added later, such as those of ``Done(30)`` and of failed syncs, are not waited
        for. Raises AssertionError if a controller was refused a request, or if the
        controllers do not settle within a minute of their clock.
        """
        __tracebackhide__ = True
        if self._running is None:
            await self.start()
        await asyncio.sleep(seconds)
        for _ in range(_PATIENCE):
            before = self._versions()
            await asyncio.sleep(_QUIET)
            self.check_requests()
            is_idle = self._running is None or self._running.is_idle
            if is_idle and before == self._versions():
                return
        msg = (
            f"the controllers did not settle within {_PATIENCE * _QUIET:g} s of their "
            "clock: a sync writes although nothing has changed, or it never ends"
        )
        raise AssertionError(msg)

    def _versions(self) -> list[int]:
        return [each.server.version for each in self._clusters]

    def check_requests(self) -> None:
        """Raise AssertionError for requests that a controller was refused, once."""
        __tracebackhide__ = True
        refused: dict[str, None] = {}
        for each in self._transports():
            refused |= dict.fromkeys(each.refused)
            each.refused.clear()
        if refused:
            raise AssertionError("; ".join(refused))

    def _client_of(self, descriptor: Descriptor) -> Client:
        transport = self._own.of_controllers[descriptor.name]
        return Client(transport, self.clock, field_manager=descriptor.name)

    @property
    def writes(self) -> list[str]:
        """The writes of the controllers so far, without events.

        Each is a method and a path, such as ``PATCH /api/v1/namespaces/shop``; one to
        another cluster ends with its name, such as ``in edge``. Those that a fault has
        met are there, too.
        """
        return [line for each in self._transports() for line in each.writes]

    def _transports(self) -> "Iterator[_Confined]":
        for each in self._clusters:
            yield from each.of_controllers.values()

    @property
    def log(self) -> str:
        """The log of the controllers."""
        return self._log.getvalue()

    def metrics(self) -> str:
        """Return the metrics since the last start as text, as Prometheus reads them."""
        return expose(self._metrics).decode()


def _account(descriptor: Descriptor) -> User:
    name = f"system:serviceaccount:{NAMESPACE}:{descriptor.account}"
    return User(name, groups=(*account_groups(NAMESPACE), AUTHENTICATED))


def _with_watched(descriptor: Descriptor) -> Descriptor:
    try:
        return with_watched(descriptor)
    except (ImportError, AttributeError) as error:
        msg = f"{descriptor.name} cannot be imported: {error}; repair its `load`"
        raise ClusterError(msg) from error


class _Cluster:
    """An API server in memory, and the ways of the controllers and the test to it."""

    def __init__(
        self, build: Registry, clock: Clock, rng: random.Random, name: str = ""
    ) -> None:
        users = {"admin": ADMIN, "manager": User(MANAGER)}
        users |= {each.name: _account(each) for each in build.descriptors}
        server = APIServer(clock=clock, rng=rng, users=users, rbac=True, build=build)
        add_system_namespaces(server.objects)
        self.admin = InMemoryTransport(server, "admin")
        self.server = _FaultyServer(server)
        self.faults = Faults(self.server)
        self.of_controllers = {
            each.name: _Confined(self.server, each.name, clock, name)
            for each in build.descriptors
        }

    def connections(self, others: "Mapping[str, _Cluster]") -> Connections:
        return Connections(
            InMemoryTransport(self.server, "manager"),
            of_controller=self.of_controllers.__getitem__,
            clusters={name: each.connections({}) for name, each in others.items()},
        )


class _FaultyServer(FaultControl):
    """Passes requests on to an API server, as its faults let it."""

    def __init__(self, server: APIServer) -> None:
        self._server = server
        self._layer = FaultLayer()
        self._is_down = False
        self.is_left = False
        """True while no request may arrive: the process that sends them has ended."""

    async def handle(self, request: Request) -> Response | StreamingResponse:
        """Answer a request; raises TransportError where a connection would fail."""
        if self._is_down or self.is_left:
            raise NotSent("connection refused by a fault of the test")
        try:
            answer = await self._layer(request, self._server.handle)
        except ConnectionCutError:
            raise TransportError("connection cut by a fault of the test") from None
        if isinstance(answer, Response):
            return answer
        pieces = _cuttable(answer)
        return StreamingResponse(pieces, answer.headers, answer.status, answer.close)

    @property
    def version(self) -> int:
        return self._server.storage.version

    def add(self, fault: Fault) -> Fault:
        self._layer.add(fault)
        return fault

    def clear(self) -> None:
        self._layer.clear()
        self.listen_again()

    def end_watches(self, which: RequestFilter, ending: Ending) -> int:
        if ending is Ending.EXPIRED:
            forget_history(self._server, which)
        return self._layer.end_watches(which, ending, self.version)

    def stop_listening(self) -> None:
        self._is_down = True
        self.end_watches(RequestFilter(), Ending.CUT)

    def listen_again(self, after: float = 0.0) -> None:
        if after:
            asyncio.get_running_loop().call_later(after, self.listen_again)
        elif self._is_down:
            forget_history(self._server, RequestFilter())
            self._is_down = False

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


async def _cuttable(answer: StreamingResponse) -> AsyncGenerator[bytes, None]:
    """Yield the pieces; raises TransportError where the connection is cut."""
    try:
        async with aclosing(answer.chunks()) as chunks:
            async for chunk in chunks:
                yield chunk
    except ConnectionCutError:
        raise TransportError("connection cut by a fault of the test") from None


class _Confined(InMemoryTransport):
    """Notes the writes of a controller, and the requests that no role allows."""

    def __init__(
        self, server: _FaultyServer, controller: str, clock: Clock, cluster: str
    ) -> None:
        super().__init__(server, controller, controller)
        self._controller = controller
        self._where = f" in {cluster}" if cluster else ""
        self._clock = clock
        self._now = 0.0
        self._writes_now: Counter[str] = Counter()
        self._endless: set[str] = set()
        self.writes: list[str] = []
        self.refused: list[str] = []

    async def request(self, request: Request) -> Response:
        """Pass a request on; raises NotSent for a write that repeats without end."""
        if request.method != "GET" and "/events" not in request.path:
            self._note_write(f"{request.method} {request.path}{self._where}")
        answer = await super().request(request)
        if answer.status == 403:
            self._note_refusal(str(error_from_response(403, answer.body, None, None)))
        return answer

    def _note_write(self, write: str) -> None:
        """Note a write; without this, time would not move while syncs write at once."""
        if self._now != self._clock.monotonic():
            self._now = self._clock.monotonic()
            self._writes_now.clear()
        self._writes_now[write] += 1
        if self._writes_now[write] > _MOST_WRITES or write in self._endless:
            msg = (
                f"{self._controller} repeats {write} without end: each sync writes, "
                "and what it writes causes the next sync"
            )
            self._endless.add(write)
            self.refused.append(msg)
            raise NotSent(msg)
        self.writes.append(write)

    def _note_refusal(self, message: str) -> None:
        found = _REFUSAL.search(message)
        if found is None:
            return  # admission has refused it
        name, _, subresource = found["resource"].partition("/")
        what = f"{name}.{found['group']}" if found["group"] else name
        more = f", subresource={subresource!r}" if subresource else ""
        self.refused.append(
            f"{self._controller} may not {found['verb']} {found['resource']}"
            f"{self._where}: give its "
            f'Descriptor allow(<{what}>, "{found["verb"]}"{more}) among the permissions'
        )
