"""A cluster that runs in the event loop of its own thread."""

import asyncio
import gc
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, Self

import yaml
from msgspec import Struct

from controller_manager.clock import Clock, LoopClock, SystemClock
from controller_manager.devcluster.admission.plugins import PluginError
from controller_manager.devcluster.apiserver.security import Attributes
from controller_manager.devcluster.cluster import DevCluster
from controller_manager.devcluster.data.snapshot import (
    DataError,
    read_snapshot,
    write_snapshot,
)
from controller_manager.devcluster.embedded import controllers_in_memory, prepared
from controller_manager.devcluster.http_server import HTTPServer
from controller_manager.devcluster.manifests import (
    ManifestError,
    parted,
    read_manifests,
)
from controller_manager.devcluster.registry.core.service_accounts import uid_of_account
from controller_manager.devcluster.storage import StorageState, state_of
from controller_manager.observability.defects import log_loop_errors
from controller_manager.observability.logs import Logger, make_logger, silent_logger
from controller_manager.options.options import OptionsError
from controller_manager.runtime.registry import Registry
from controller_manager.serving.certificates import ServingError

from .fault_layer import Ending, FaultLayer
from .requests import RequestFilter, RequestLog
from .settings import ClusterError, ClusterSettings


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
            self._forget_history(which)
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
            self._forget_history(RequestFilter())
            await self.cluster.http.start()
            self.close()

    def close(self) -> None:
        """Release the reserved port if the server does not listen."""
        if self._reserved is not None:
            self._reserved.close()
            self._reserved = None

    def _forget_history(self, which: RequestFilter) -> None:
        """Drop the changes so far of the resources that are selected."""
        server = self.cluster.server
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
            stack.enter_context(_thawed())
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
    """Turn the errors that a user can mend into ClusterError."""
    try:
        yield
    except OptionsError as error:
        raise ClusterError("; ".join(error.problems)) from None
    except (DataError, ManifestError, PluginError, ServingError) as error:
        raise ClusterError(str(error)) from None


@contextmanager
def _thawed() -> Iterator[None]:
    """Undo the manager's gc.freeze at the end: this process has other objects, too."""
    frozen = gc.get_freeze_count()
    try:
        yield
    finally:
        if not frozen:
            gc.unfreeze()
