"""A development cluster for tests, in a thread of its own."""

import asyncio
import os
import selectors
import threading
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar

from controller_manager.client.identity.credentials import load_credentials
from controller_manager.client.rest.client import Client
from controller_manager.client.wire.http import HTTPTransport
from controller_manager.clock import SystemClock
from controller_manager.devcluster.apiserver.kind import Kind
from controller_manager.devcluster.apiserver.objects import Objects
from controller_manager.devcluster.registry.core.cluster import NAMESPACES as NAMESPACE
from controller_manager.devcluster.registry.core.secrets import (
    CONFIG_MAPS as CONFIG_MAP,
)
from controller_manager.devcluster.registry.core.secrets import (
    SERVICE_ACCOUNTS as SERVICE_ACCOUNT,
)
from controller_manager.devcluster.scheme.statuses import Refusal
from controller_manager.runtime.registry import Registry, RegistryError
from controller_manager.version import COMMAND_USER_AGENT

from . import ClusterError, ClusterSettings
from .faults import FaultControl, Faults, RunningCluster, Snapshot, run_cluster
from .requests import Ending, Fault, RequestFilter, Requests

if TYPE_CHECKING:
    from kubernetes_asyncio.client import ApiClient


# An event loop in which time passes faster than outside

_HANDSHAKE: Final = 60.0
"""Seconds that asyncio gives a client for the handshake."""

_TOLERANCE: Final = 1e-6
"""Seconds added to a wait, so that the timer for which the loop waits is due."""


class _PacedSelector(selectors.DefaultSelector):
    """Waits for a fraction of each timeout, and counts the skipped time.

    Only waiting is shortened. Work takes its real time, and a wait never passes the
    timer at its end. So timers fire in their order, at their times, also on a machine
    that is too busy: no lease expires because its holder had no CPU.
    """

    def __init__(self, factor: float) -> None:
        super().__init__()
        self._factor = factor
        self.skipped = 0.0

    def select(
        self, timeout: float | None = None
    ) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            return super().select(timeout)
        began = time.monotonic()
        events = super().select(None if timeout is None else timeout / self._factor)
        waited = time.monotonic() - began
        passed = waited * self._factor
        if timeout is not None:
            passed = min(passed, timeout + _TOLERANCE)
        self.skipped += passed - waited
        return events


class PacedLoop(asyncio.SelectorEventLoop):
    """An event loop whose time passes `factor` times as fast while it waits."""

    def __init__(self, factor: float) -> None:
        self._factor = factor
        self._paced = _PacedSelector(factor)
        super().__init__(self._paced)

    async def create_server(self, *args: Any, **options: Any) -> asyncio.Server:
        """Listen; clients have as much of their own time for TLS as on other loops."""
        if options.get("ssl") is not None:
            seconds = _HANDSHAKE * self._factor
            options.setdefault("ssl_handshake_timeout", seconds)
        return await super().create_server(*args, **options)

    def time(self) -> float:
        """Return the seconds of this loop's own time."""
        return super().time() + self._paced.skipped


# The thread

T = TypeVar("T")
ResultT = TypeVar("ResultT")


class _ClusterThread(Generic[T]):
    """Enters a context in a thread, and leaves it when :meth:`stop` is called.

    Callers may have an event loop or not: the thread has its own.
    """

    def __init__(
        self,
        context: Callable[[], AbstractAsyncContextManager[T]],
        loop_factory: Callable[[], asyncio.AbstractEventLoop],
    ) -> None:
        self._context = context
        self._loop_factory = loop_factory
        self._entered: Future[T] = Future()
        self._ended: Future[None] = Future()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._thread = threading.Thread(
            target=self._run, name="devcluster", daemon=True
        )

    def start(self) -> "Future[T]":
        """Start; the result is what the context yields, or the error of entering."""
        self._thread.start()
        return self._entered

    def stop(self) -> "Future[None]":
        """Leave the context; the result has the error of the thread, if any."""
        if self._stop is not None and self._loop is not None and not self._ended.done():
            self._loop.call_soon_threadsafe(self._stop.set)
        return self._ended

    def join(self) -> None:
        self._thread.join()

    def run(self, work: Coroutine[Any, Any, ResultT]) -> "Future[ResultT]":
        if self._loop is None or self._ended.done():
            work.close()
            raise RuntimeError("the cluster is not running")
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def call(self, function: Callable[[], ResultT]) -> ResultT:
        async def work() -> ResultT:
            return function()

        return self.run(work()).result()

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=self._loop_factory) as runner:
                runner.run(self._main())
        except BaseException as error:  # noqa: BLE001 - the waiting caller gets it
            if self._entered.done():
                self._ended.set_exception(error)
                return
            self._entered.set_exception(error)
        self._ended.set_result(None)

    async def _main(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with self._context() as entered:
            self._entered.set_result(entered)
            await self._stop.wait()


# The controllers of the installed program

GROUP: Final = "controller_manager.build"
"""The entry point group of functions that return the registry of a build."""


def _installed_build() -> Registry:
    """Return the controllers of the installed program; raises ClusterError.

    The tests of other projects name no controllers, and this package imports none.
    """
    found = entry_points(group=GROUP)
    if not found:
        raise ClusterError(
            f"no installed package has an entry point of the group {GROUP}; install "
            "this project with pip, or give DevelopmentCluster a build"
        )
    try:
        build: Registry = next(iter(found)).load()()
    except RegistryError as error:
        raise ClusterError(str(error)) from None
    return build


# Namespaces for one test each

_CONTENTS: Final = (
    ("serviceaccount-controller", SERVICE_ACCOUNT, "default"),
    ("root-ca-certificate-publisher-controller", CONFIG_MAP, "kube-root-ca.crt"),
)
"""The objects that controllers create in each new namespace."""

_PATIENCE: Final = 30.0


class TemporaryNamespace:
    """A namespace that exists while it is entered (``with`` or ``async with``).

    Like every namespace of a cluster, it has its default service account and the root
    certificate, if their controllers run. At the end it is removed at once with all its
    objects: finalizers and grace periods do not count.
    """

    def __init__(
        self,
        thread: _ClusterThread[RunningCluster],
        running: RunningCluster,
        prefix: str,
    ) -> None:
        self._thread = thread
        self._running = running
        self._prefix = prefix
        self._name = ""

    def __enter__(self) -> str:
        """Create the namespace; return its name."""
        self._name = self._thread.run(
            _create_namespace(self._running, self._prefix)
        ).result()
        return self._name

    def __exit__(self, *_: object) -> None:
        """Remove the namespace with its objects."""
        objects = self._running.cluster.server.objects
        kinds = self._running.cluster.server.catalogue.all()
        self._thread.call(lambda: _remove_namespace(objects, kinds, self._name))

    async def __aenter__(self) -> str:
        """Create the namespace; return its name."""
        creating = self._thread.run(_create_namespace(self._running, self._prefix))
        self._name = await asyncio.wrap_future(creating)
        return self._name

    async def __aexit__(self, *_: object) -> None:
        """Remove the namespace with its objects."""
        self.__exit__()


async def _create_namespace(running: RunningCluster, prefix: str) -> str:
    """Create a namespace, and wait for the objects of controllers in it.

    Raises ClusterError if the objects do not appear, or if the name is not valid.
    """
    objects = running.cluster.server.objects
    try:
        wanted = {"metadata": {"generateName": f"{prefix}-"}}
        stored = objects.create(NAMESPACE, "", wanted)
    except Refusal as refusal:
        raise ClusterError(refusal.message) from None
    name: str = stored.obj["metadata"]["name"]
    for controller, kind, content in _CONTENTS:
        if controller in running.controllers:
            await _wait_for(objects, kind, name, content)
    return name


async def _wait_for(objects: Objects, kind: Kind, namespace: str, name: str) -> None:
    collection = objects.storage.collection(kind.resource)
    watcher = collection.watch(collection.version)
    try:
        async with asyncio.timeout(_PATIENCE):
            while not objects.has(kind, namespace, name):
                await watcher.wait()
                watcher.take()
    except TimeoutError:
        msg = f"{kind.plural} {name!r} did not appear in the new namespace {namespace}"
        raise ClusterError(msg) from None
    finally:
        watcher.close()


def _remove_namespace(objects: Objects, kinds: list[Kind], name: str) -> None:
    """Remove a namespace and its objects, also with finalizers.

    No other task runs meanwhile, so no controller can create objects in it.
    """
    if not objects.has(NAMESPACE, "", name):
        return  # the test has deleted it
    by_resource = {kind.resource: kind for kind in kinds if kind.namespaced}
    for kind in by_resource.values():
        for stored in objects.storage.collection(kind.resource):
            if stored.obj["metadata"].get("namespace") == name:
                _remove(objects, kind, (name, stored.obj["metadata"]["name"]))
    _remove(objects, NAMESPACE, ("", name))


def _remove(objects: Objects, kind: Kind, key: tuple[str, str]) -> None:
    collection = objects.storage.collection(kind.resource)
    if collection.get(key) is None:
        return  # the object was removed with another one
    removed: dict[str, Any] = collection.remove(key).obj
    objects.react(kind, removed, None)


# The faults of a cluster


class _ClusterFaults(FaultControl):
    """Changes the faults of a cluster; its methods may be called in any thread."""

    def __init__(
        self, thread: _ClusterThread[RunningCluster], running: RunningCluster
    ) -> None:
        self._thread = thread
        self._running = running

    @property
    def version(self) -> int:
        return self._running.version

    def add(self, fault: Fault) -> Fault:
        self._thread.call(lambda: self._running.faults.add(fault))
        return fault

    def clear(self) -> None:
        self._thread.call(self._running.faults.clear)
        self.listen_again()

    def end_watches(self, which: RequestFilter, ending: Ending) -> int:
        return self._thread.call(lambda: self._running.end_watches(which, ending))

    def stop_listening(self) -> None:
        self._thread.run(self._running.stop_listening()).result()

    def listen_again(self, after: float = 0.0) -> None:
        restart = self._thread.run(self._listen_again(after))
        if not after:
            restart.result()

    async def _listen_again(self, after: float) -> None:
        await self.sleep(after)
        await self._running.listen_again()

    async def sleep(self, seconds: float) -> None:
        """Wait in the thread of the cluster."""
        await asyncio.sleep(seconds * self._running.time_factor)


# The cluster

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
        self._thread: _ClusterThread[RunningCluster] | None = None
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

    def __exit__(self, *_: object) -> None:
        """Stop the cluster."""
        self.stop()

    async def __aenter__(self) -> Self:
        """Start the cluster; the caller's event loop runs meanwhile."""
        thread = self._new_thread()
        self._running = await asyncio.wrap_future(thread.start())
        self._thread = thread
        return self

    async def __aexit__(self, *_: object) -> None:
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
        return Faults(_ClusterFaults(*self._now))

    @property
    def requests(self) -> Requests:
        """The requests of clients so far, and the codes of their answers."""
        thread, running = self._now
        return Requests(thread.call, running.requests)

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

    @asynccontextmanager
    async def client(
        self, namespace: str = "", account: str = ""
    ) -> AsyncGenerator[Client, None]:
        """Yield a typed client for the caller's event loop.

        Its user is the administrator, or a service account, as that of `api_client`.
        """
        path = self.kubeconfig
        if account:
            path = self.account_kubeconfig(namespace, account)
        clock = SystemClock()
        credentials = load_credentials(str(path), "", clock)
        transport = HTTPTransport(credentials, COMMAND_USER_AGENT)
        try:
            yield Client(transport, clock, field_manager="test")
        finally:
            await transport.close()

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

    def _new_thread(self) -> _ClusterThread[RunningCluster]:
        if self._thread is not None:
            raise RuntimeError("the cluster is running already")
        factor = self.settings.time_factor
        return _ClusterThread(
            lambda: run_cluster(self.settings, self._build or _installed_build()),
            asyncio.SelectorEventLoop if factor == 1 else lambda: PacedLoop(factor),
        )

    def _forget(self) -> _ClusterThread[RunningCluster] | None:
        thread, self._thread = self._thread, None
        self._running = None
        return thread

    @property
    def _now(self) -> tuple[_ClusterThread[RunningCluster], RunningCluster]:
        """The thread and what runs in it; raises RuntimeError if nothing runs."""
        if self._thread is None or self._running is None:
            msg = "the cluster is not running; enter it with 'with' or 'async with'"
            raise RuntimeError(msg)
        return self._thread, self._running
