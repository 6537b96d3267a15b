"""A development cluster for tests, in a thread of its own."""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from controller_manager.runtime.registry import Registry

from .cluster_thread import ClusterThread
from .fault_control import FaultControl
from .faults import Faults
from .installed_build import installed_build
from .namespaces import TemporaryNamespace
from .pace import PacedLoop
from .requests import Requests
from .running_cluster import RunningCluster, run_cluster
from .settings import ClusterSettings
from .snapshot import Snapshot

if TYPE_CHECKING:
    from kubernetes_asyncio.client import ApiClient

_DEFAULTS: Final = ClusterSettings()


class DevelopmentCluster:
    """A cluster that runs while it is entered (``with`` or ``async with``).

    It has a thread and an event loop of its own, so that the program which uses it may
    block, or have an event loop of any kind. The cluster is on the loopback interface.
    It is in memory, and gone at the end, unless its settings name a data file.
    """

    def __init__(
        self, settings: ClusterSettings = _DEFAULTS, build: Registry | None = None
    ) -> None:
        """Take the settings, and the controllers that can run.

        Without a `build`, these are the controllers of the installed program. Nothing
        runs yet.
        """
        self.settings: Final = settings
        self._build = build
        self._thread: ClusterThread[RunningCluster] | None = None
        self._running: RunningCluster | None = None

    # Starting and stopping

    def start(self) -> None:
        """Start the cluster, and wait until its API server and controllers run.

        Raises ClusterError, whose message is one line, if the settings cannot be used.
        """
        thread = self._new_thread()
        entered = thread.start()
        try:
            self._running = entered.result()
        finally:
            entered.cancel()  # after an interrupt by the user, the thread ends
        self._thread = thread

    def stop(self) -> None:
        """Stop the cluster, and wait for its end; raises the error of its thread."""
        if thread := self._forget():
            try:
                thread.stop().result()
            finally:
                thread.join()

    def __enter__(self) -> Self:
        """Start the cluster."""
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop the cluster."""
        self.stop()

    async def __aenter__(self) -> Self:
        """Start the cluster; the caller's event loop runs meanwhile."""
        thread = self._new_thread()
        self._running = await asyncio.wrap_future(thread.start())
        self._thread = thread
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop the cluster; the caller's event loop runs meanwhile."""
        if thread := self._forget():
            try:
                await asyncio.wrap_future(thread.stop())
            finally:
                thread.join()

    # Using it

    @property
    def url(self) -> str:
        """The URL of the API server."""
        return self._now[1].cluster.url

    @property
    def kubeconfig(self) -> Path:
        """The file with the administrator's credentials, for every client."""
        return self._now[1].kubeconfig

    @property
    def faults(self) -> Faults:
        """The faults between the clients and the API server."""
        return Faults(FaultControl(*self._now))

    @property
    def requests(self) -> Requests:
        """The requests of clients so far, and the codes of their answers."""
        thread, running = self._now
        return Requests(thread, running.requests)

    def environment(self) -> dict[str, str]:
        """Return the environment of this process with KUBECONFIG, for a program."""
        return {**os.environ, "KUBECONFIG": str(self.kubeconfig)}

    def account_kubeconfig(self, namespace: str, name: str) -> Path:
        """Return a file with the credentials of a service account, which must exist.

        With roles enforced, a controller with it can do no more than in production.
        Raises ClusterError without such an account.
        """
        thread, running = self._now
        return thread.call(lambda: running.account_kubeconfig(namespace, name))

    @asynccontextmanager
    async def api_client(
        self, namespace: str = "", account: str = ""
    ) -> AsyncGenerator["ApiClient", None]:
        """Yield a client of kubernetes_asyncio for the caller's event loop.

        Its user is the administrator, or a service account, which must exist: so a test
        can do no more than that account. Raises ClusterError without such an account.
        """
        from kubernetes_asyncio.config import new_client_from_config  # noqa: PLC0415 - 40 MB

        path = self.kubeconfig
        if account:
            path = self.account_kubeconfig(namespace, account)
        async with await new_client_from_config(
            str(path), persist_config=False
        ) as client:
            yield client

    def namespace(self, prefix: str = "test") -> TemporaryNamespace:
        """Return a new namespace, which exists while it is entered.

        Its name begins with `prefix`. It is entered by ``with`` or ``async with``.
        """
        return TemporaryNamespace(*self._now, prefix)

    def snapshot(self) -> Snapshot:
        """Return the present state, for :meth:`restore`; it takes microseconds."""
        thread, running = self._now
        return thread.call(running.snapshot)

    def restore(self, snapshot: Snapshot, *, ends_watches: bool = False) -> None:
        """Replace all objects by those of a snapshot, also one of another cluster.

        Objects that differ get a new resourceVersion, higher than all before, and
        watches send them like all changes. With `ends_watches`, watches end with 410,
        so that all clients and controllers must list again.
        """
        thread, running = self._now
        thread.call(lambda: running.restore(snapshot, ends_watches=ends_watches))

    # Inside

    def _new_thread(self) -> ClusterThread[RunningCluster]:
        if self._thread is not None:
            msg = "the cluster is running already"
            raise RuntimeError(msg)
        factor = self.settings.time_factor
        return ClusterThread(
            lambda: run_cluster(self.settings, self._build or installed_build()),
            asyncio.SelectorEventLoop if factor == 1 else lambda: PacedLoop(factor),
        )

    def _forget(self) -> ClusterThread[RunningCluster] | None:
        thread, self._thread = self._thread, None
        self._running = None
        return thread

    @property
    def _now(self) -> tuple[ClusterThread[RunningCluster], RunningCluster]:
        """The thread and what runs in it; raises RuntimeError if nothing runs."""
        if self._thread is None or self._running is None:
            msg = "the cluster is not running; enter it with 'with' or 'async with'"
            raise RuntimeError(msg)
        return self._thread, self._running
