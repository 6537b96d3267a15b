"""Namespaces for one test each."""

import asyncio
from types import TracebackType
from typing import Any, Final

from controller_manager.devcluster.kinds.core.configmap import KIND as CONFIG_MAP
from controller_manager.devcluster.kinds.core.namespace import KIND as NAMESPACE
from controller_manager.devcluster.kinds.core.serviceaccount.strategy import (
    KIND as SERVICE_ACCOUNT,
)
from controller_manager.devcluster.scheme.statuses import Refusal
from controller_manager.devcluster.server.registry.objects import Objects
from controller_manager.devcluster.server.rest.kind import Kind

from .cluster_error import ClusterError
from .cluster_thread import ClusterThread
from .running_cluster import RunningCluster

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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Remove the namespace with its objects."""
        objects = self._running.cluster.server.objects
        kinds = self._running.cluster.server.catalogue.all()
        self._thread.call(lambda: remove_namespace(objects, kinds, self._name))

    async def __aenter__(self) -> str:
        """Create the namespace; return its name."""
        creating = self._thread.run(create_namespace(self._running, self._prefix))
        self._name = await asyncio.wrap_future(creating)
        return self._name

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Remove the namespace with its objects."""
        self.__exit__(kind, error, traceback)


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
