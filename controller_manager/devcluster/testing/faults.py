"""A running cluster in its thread, and faults between clients and its API server."""

import asyncio
import gc
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Final, Protocol, Self, Unpack

import yaml
from msgspec import Struct

from controller_manager.client.rest.transport import Request, Response
from controller_manager.clock import Clock, LoopClock, SystemClock
from controller_manager.devcluster.admission import PluginError
from controller_manager.devcluster.apiserver.reading import frame_of
from controller_manager.devcluster.apiserver.request_info import is_true
from controller_manager.devcluster.apiserver.responses import (
    TEXT_HEADERS,
    media_type_of,
    refused,
)
from controller_manager.devcluster.apiserver.security import Attributes
from controller_manager.devcluster.cluster import (
    DevCluster,
    controllers_in_memory,
    prepared,
)
from controller_manager.devcluster.controlplane import APIServer
from controller_manager.devcluster.http_server import (
    Answer,
    Answering,
    ConnectionCutError,
    HTTPServer,
    Interceptor,
)
from controller_manager.devcluster.manifests import (
    ManifestError,
    parted,
    read_manifests,
)
from controller_manager.devcluster.registry.core.secrets import uid_of_account
from controller_manager.devcluster.scheme.statuses import (
    conflict,
    expired,
    of_code,
)
from controller_manager.devcluster.snapshot import (
    DataError,
    read_snapshot,
    write_snapshot,
)
from controller_manager.devcluster.storage import StorageState, state_of
from controller_manager.observability.defects import log_loop_errors
from controller_manager.observability.logs import Logger, make_logger, silent_logger
from controller_manager.options.options import OptionsError
from controller_manager.runtime.registry import Registry
from controller_manager.serving.certificates import ServingError

from . import ClusterError, ClusterSettings
from .requests import (
    Ending,
    Fault,
    FaultLayer,
    RequestFilter,
    RequestLog,
    Which,
    attributes_of_request,
    gone_event,
    make_filter,
)

# A cluster that runs in the event loop of its own thread.


class Snapshot(Struct, frozen=True):
    """All objects of a cluster at one moment; it never changes."""

    state: StorageState

    @classmethod
    def read(cls, path: Path | str) -> Self:
        """Return the snapshot in a file, also one of ``devcluster snapshot``.

        Raises ClusterError.
        """
        try:
            return cls(read_snapshot(Path(path)))
        except DataError as error:
            raise ClusterError(str(error)) from None

    def write(self, path: Path | str) -> None:
        """Write a file that ``devcluster restore`` reads, too; raises ClusterError."""
        try:
            write_snapshot(Path(path), self.state)
        except DataError as error:
            raise ClusterError(str(error)) from None

    @property
    def count(self) -> int:
        """The number of objects."""
        return self.state.count


_PORT_REMEDY: Final = "choose another port, or 0 for a free one"
_TOKEN_LIFETIME: Final = timedelta(days=365)


class RunningCluster:
    """The parts of a cluster, for use in the cluster's own thread only."""

    def __init__(
        self,
        cluster: DevCluster,
        faults: FaultLayer,
        requests: RequestLog,
        kubeconfig: Path,
        controllers: frozenset[str],
        time_factor: float,
    ) -> None:
        self.cluster = cluster
        self.faults = faults
        self.requests = requests
        self.kubeconfig = kubeconfig
        self.controllers = controllers
        self.time_factor = time_factor
        self._listening = asyncio.Lock()
        self._reserved: socket.socket | None = None

    @property
    def version(self) -> int:
        """The latest resourceVersion."""
        return self.cluster.server.storage.version

    def snapshot(self) -> Snapshot:
        """Return the present state."""
        return Snapshot(state_of(self.cluster.server.storage))

    def restore(self, snapshot: Snapshot, *, ends_watches: bool) -> None:
        """Replace all objects by those of a snapshot."""
        self.cluster.server.restore(snapshot.state, ends_watches=ends_watches)

    def account_kubeconfig(self, namespace: str, name: str) -> Path:
        """Write a kubeconfig with a token of a service account; return its path.

        Raises ClusterError if there is no such account.
        """
        server = self.cluster.server
        uid = uid_of_account(server.storage, namespace, name)
        if uid is None:
            msg = f"there is no service account {name!r} in the namespace {namespace!r}"
            raise ClusterError(msg)
        ends_at = server.objects.clock.now() + _TOKEN_LIFETIME
        token = server.tokens.issue(namespace, name, uid, ends_at)
        config = self.cluster.kubeconfig()
        context = config["contexts"][0]
        context["context"] |= {"user": name, "namespace": namespace}
        config |= {
            "users": [{"name": name, "user": {"token": token}}],
            "contexts": [context],
        }
        path = self.kubeconfig.with_name(f"{namespace}.{name}.kubeconfig")
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
        return path

    def end_watches(self, which: RequestFilter, ending: Ending) -> int:
        """End the open watches that are selected; return their number."""
        if ending is Ending.EXPIRED:
            forget_history(self.cluster.server, which)
        return self.faults.end_watches(which, ending, self.version)

    async def stop_listening(self) -> None:
        """Cut all connections and refuse new ones, until :meth:`listen_again`."""
        async with self._listening:
            if self._reserved is not None:
                return
            self.faults.end_watches(RequestFilter(), Ending.CUT, self.version)
            self.cluster.http.cut_connections()
            await self.cluster.http.close()
            self._reserved = _reserved(self.cluster.http)

    async def listen_again(self) -> None:
        """Accept connections as a server that has just started; its history is empty.

        If it listens already, nothing happens. Raises ServingError.
        """
        async with self._listening:
            if self._reserved is None:
                return
            forget_history(self.cluster.server, RequestFilter())
            await self.cluster.http.start()
            self.close()

    def close(self) -> None:
        """Release the reserved port if the server does not listen."""
        if self._reserved is not None:
            self._reserved.close()
            self._reserved = None


def forget_history(server: APIServer, which: RequestFilter) -> None:
    """Forget the events of the selected resources: their watches must list again."""
    for kind in server.catalogue.all():
        attributes = Attributes("watch", group=kind.group, resource=kind.plural)
        if which.selects(attributes):
            server.storage.collection(kind.resource).compact()


@asynccontextmanager
async def run_cluster(
    settings: ClusterSettings, build: Registry
) -> AsyncIterator[RunningCluster]:
    """Run a cluster with controllers of `build` in the running loop, until left.

    Raises ClusterError for settings that cannot be used.
    """
    logger = _logger(settings.verbosity)
    log_loop_errors(logger)
    faults, requests = FaultLayer(), RequestLog()
    async with AsyncExitStack() as stack:
        stack.enter_context(_one_line_errors())
        options, config, directory = stack.enter_context(
            prepared(settings, build, secure_port=0, port_remedy=_PORT_REMEDY)
        )
        file = options.data
        clock = _clock(settings.time_factor, file.time if file is not None else None)
        before, after = parted(read_manifests([*map(Path, settings.manifests)]))
        cluster = await stack.enter_async_context(
            DevCluster(options, clock, logger, faults, requests.record)
        )
        await cluster.create(before)
        controllers: frozenset[str] = frozenset()
        if settings.controllers:
            stack.enter_context(thawed())
            manager = await stack.enter_async_context(
                controllers_in_memory(cluster, config, clock, logger)
            )
            controllers = frozenset(manager.controllers.names)
        await cluster.create(after)
        path = directory / "kubeconfig"
        cluster.write_kubeconfig(path)
        running = RunningCluster(
            cluster, faults, requests, path, controllers, settings.time_factor
        )
        stack.callback(running.close)
        yield running


def _reserved(server: HTTPServer) -> socket.socket:
    """Keep the port of a server that does not listen; connections are refused.

    Otherwise the system may give the port to a new connection, also to that of a client
    which tries to reach the server.
    """
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind((server.host, server.port))
    return reserved


def _clock(time_factor: float, least: datetime | None) -> Clock:
    """Return the clock of a cluster, which begins at `least` if that is later.

    An earlier cluster with faster time has left timestamps in the future.
    """
    now = datetime.now(UTC)
    if time_factor == 1 and (least is None or least <= now):
        return SystemClock()
    since = timedelta(seconds=asyncio.get_running_loop().time())
    return LoopClock(max(now, least or now) - since)


def _logger(verbosity: int) -> Logger:
    return make_logger(verbosity=verbosity) if verbosity >= 0 else silent_logger()


@contextmanager
def _one_line_errors() -> Iterator[None]:
    try:
        yield
    except OptionsError as error:
        raise ClusterError("; ".join(error.problems)) from None
    except (DataError, ManifestError, PluginError, ServingError) as error:
        raise ClusterError(str(error)) from None


@contextmanager
def thawed() -> Iterator[None]:
    """Undo the manager's gc.freeze at the end: this process has other objects, too."""
    frozen = gc.get_freeze_count()
    try:
        yield
    finally:
        if not frozen:
            gc.unfreeze()


# Faults between a client and the API server of a cluster.


class FaultControl(Protocol):
    """Changes the faults of an API server."""

    @property
    def version(self) -> int:
        """The latest resourceVersion."""

    def add(self, fault: Fault) -> Fault:
        """Apply a fault to requests from now on, and return it."""

    def clear(self) -> None:
        """Remove all faults, and listen if the server does not; raises ServingError."""

    def end_watches(self, which: RequestFilter, ending: Ending) -> int:
        """End the open watches that are selected; return their number."""

    def stop_listening(self) -> None:
        """Cut all connections and refuse new ones."""

    def listen_again(self, after: float = 0.0) -> None:
        """Accept connections again with an empty history, at once or later.

        Raises ServingError if the port cannot be used any more.
        """

    async def sleep(self, seconds: float) -> None:
        """Wait some seconds of the clients' clock."""


_MODIFIED: Final = (
    "the object has been modified; please apply your changes to the latest version "
    "and try again"
)
_LIST_EXPIRED: Final = (
    "The provided continue parameter is too old to display a consistent list result. "
    "You can start a new list without the continue parameter."
)
_TOO_MANY: Final = b"Too many requests, please try again later.\n"


class Faults:
    """Faults between the clients of a cluster and its API server.

    Those of a `DevelopmentCluster` meet all clients on the network: the controller
    under test, kubectl, the test itself. They do not meet the controllers and nodes of
    the cluster. Those of a `VirtualManager` meet its controllers. Each method returns
    without waiting; those of a cluster may be called in any thread.

    A fault of requests lasts until it has met `times` requests, until it is removed, or
    until :meth:`clear`; the keywords of `which` select the requests, see
    :class:`~controller_manager.devcluster.testing.requests.Which`. Several faults
    apply in the order in which they were made. Seconds are those of the clients' clock,
    also if the time of the cluster is faster.
    """

    def __init__(self, server: FaultControl) -> None:
        self._server = server

    # Faults of requests

    def latency(
        self, seconds: float, *, times: int | None = None, **which: Unpack[Which]
    ) -> Fault:
        """Answer only after some seconds."""

        async def act(request: Request, answer: Answering) -> Answer:
            await self._server.sleep(seconds)
            return await answer(request)

        return self._add(act, times, which)

    def too_many_requests(
        self, retry_after: int = 1, *, times: int | None = None, **which: Unpack[Which]
    ) -> Fault:
        """Refuse with 429 and the header Retry-After, in seconds.

        Upstream: flow control, apiserver/pkg/server/filters/priority-and-fairness.go.
        """
        headers = {**TEXT_HEADERS, "retry-after": str(retry_after)}

        async def act(request: Request, answer: Answering) -> Answer:
            del request, answer
            return Response(HTTPStatus.TOO_MANY_REQUESTS, headers, _TOO_MANY)

        return self._add(act, times, which)

    def conflict(self, *, times: int | None = None, **which: Unpack[Which]) -> Fault:
        """Refuse with 409, as if another client had just written the object.

        It meets updates and patches, unless `verbs` says otherwise.
        """

        async def act(request: Request, answer: Answering) -> Answer:
            del answer
            about = attributes_of_request(request)
            group, resource, name = (
                (about.group, about.resource, about.name) if about else ("", "", "")
            )
            return refused(conflict(group, resource, name, _MODIFIED))

        chosen = make_filter(which, ("update", "patch"))
        return self._server.add(Fault(chosen, act, times))

    def expired(self, *, times: int | None = None, **which: Unpack[Which]) -> Fault:
        """Refuse with 410 to continue from a resourceVersion or a continue token.

        It meets lists and watches that name one, so a new list of the client succeeds.
        A watch gets the 410 as an event, as from a real server.
        """

        async def act(request: Request, answer: Answering) -> Answer:
            del answer
            oldest = self._server.version
            if is_true(dict(request.query), "watch"):
                frame = frame_of(media_type_of(request))
                event = gone_event(request, oldest, frame)
                return Response(200, {"content-type": frame.content_type}, event)
            return refused(expired(_LIST_EXPIRED))

        chosen = make_filter(which, ("list", "watch"), goes_on=True)
        return self._server.add(Fault(chosen, act, times))

    def refuse(
        self,
        code: int,
        message: str = "refused by a fault of the test",
        reason: str = "",
        *,
        times: int | None = None,
        **which: Unpack[Which],
    ) -> Fault:
        """Refuse with a Status of this code; the reason is that of the code."""
        refusal = of_code(code, message, reason)

        async def act(request: Request, answer: Answering) -> Answer:
            del request, answer
            return refused(refusal)

        return self._add(act, times, which)

    def cut(
        self,
        *,
        carried_out: bool = False,
        times: int | None = None,
        **which: Unpack[Which],
    ) -> Fault:
        """Cut the connection instead of an answer.

        The client cannot know whether the request was `carried_out`.
        """

        async def act(request: Request, answer: Answering) -> Answer:
            if carried_out and not isinstance(found := await answer(request), Response):
                await found.close()
            raise ConnectionCutError

        return self._add(act, times, which)

    def clear(self) -> None:
        """Remove all faults of requests, and end an outage."""
        self._server.clear()

    # Faults of watches

    def drop_watches(self, *, cut: bool = True, **which: Unpack[Which]) -> int:
        """End the open watches, and return their number; clients may watch again.

        With ``cut=False`` they end in good order, as after their timeout.
        """
        return self._server.end_watches(
            make_filter(which), Ending.CUT if cut else Ending.CLOSED
        )

    def expire_watches(self, **which: Unpack[Which]) -> int:
        """End the open watches with an error 410, and return their number.

        The history of their resources is gone: no client can continue from an earlier
        resourceVersion, and all clients must list again.
        """
        return self._server.end_watches(make_filter(which), Ending.EXPIRED)

    def silence_watches(self, **which: Unpack[Which]) -> int:
        """Let no more event through open watches, and return their number.

        Their connections stay open, as behind a broken network.
        """
        return self._server.end_watches(make_filter(which), Ending.SILENT)

    # Faults of the server

    def restart(self, downtime: float = 0.0) -> None:
        """Restart the API server; it is unreachable for some seconds.

        Connections are cut. The objects stay, and the history of watches is gone, as
        after a restart of a real server: a watch from an earlier resourceVersion gets
        410. With a `downtime` this returns while the server is unreachable.
        """
        self._server.stop_listening()
        self._server.listen_again(downtime)

    @contextmanager
    def outage(self) -> Iterator[None]:
        """Let the API server be unreachable while entered; it restarts at the end."""
        self._server.stop_listening()
        try:
            yield
        finally:
            self._server.listen_again()

    def _add(self, act: Interceptor, times: int | None, which: Which) -> Fault:
        return self._server.add(Fault(make_filter(which), act, times))
