"""A development cluster for tests, in a thread of its own."""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from controller_manager.client.identity.credentials import load_credentials
from controller_manager.client.rest.client import Client
from controller_manager.client.wire.http import HTTPTransport
from controller_manager.clock import SystemClock
from controller_manager.devcluster.apiserver.kind import Kind
from controller_manager.devcluster.apiserver.objects import Objects
from controller_manager.devcluster.registry.core.configuration import (
    CONFIG_MAPS as CONFIG_MAP,
)
from controller_manager.devcluster.registry.core.namespaces import KIND as NAMESPACE
from controller_manager.devcluster.registry.core.service_accounts import (
    KIND as SERVICE_ACCOUNT,
)
from controller_manager.devcluster.scheme.statuses import Refusal
from controller_manager.runtime.registry import Registry, RegistryError
from controller_manager.version import COMMAND_USER_AGENT

from . import ClusterError, ClusterSettings
from .faults import ClusterFaults, Faults, RunningCluster, Snapshot, run_cluster
from .requests import Requests
from .thread import ClusterThread, PacedLoop

if TYPE_CHECKING:
    from kubernetes_asyncio.client import ApiClient


# The controllers of the installed program

GROUP: Final = "controller_manager.build"
"""The entry point group of functions that return the registry of a build."""


def installed_build() -> Registry:
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
        thread: ClusterThread[RunningCluster],
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
            create_namespace(self._running, self._prefix)
        ).result()
        return self._name

    def __exit__(self, *_: object) -> None:
        """Remove the namespace with its objects."""
        objects = self._running.cluster.server.objects
        kinds = self._running.cluster.server.catalogue.all()
        self._thread.call(lambda: remove_namespace(objects, kinds, self._name))

    async def __aenter__(self) -> str:
        """Create the namespace; return its name."""
        creating = self._thread.run(create_namespace(self._running, self._prefix))
        self._name = await asyncio.wrap_future(creating)
        return self._name

    async def __aexit__(self, *_: object) -> None:
        """Remove the namespace with its objects."""
        self.__exit__()


async def create_namespace(running: RunningCluster, prefix: str) -> str:
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


def remove_namespace(objects: Objects, kinds: list[Kind], name: str) -> None:
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
        return Faults(ClusterFaults(*self._now))

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

    def _new_thread(self) -> ClusterThread[RunningCluster]:
        if self._thread is not None:
            raise RuntimeError("the cluster is running already")
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
