"""All informers of the daemon, each resource watched once."""

import asyncio
import random
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar, cast

from controller_manager.api.meta import KubeObject
from controller_manager.api.resource import AnyResource, Resource
from controller_manager.client.client import Client
from controller_manager.informers.informer import DEFAULT_GATES, SharedInformer
from controller_manager.informers.reads import Reads
from controller_manager.informers.transforms import MonitorTransform, transform_for
from controller_manager.observability.logs import Logger
from controller_manager.observability.metrics import InformerCollectors
from controller_manager.options.gates import FeatureGates

ObjectT = TypeVar("ObjectT", bound=KubeObject)


class ClashError(ValueError):
    """Controllers want the objects of one resource in one cache as two types."""


class InformerFactory:
    """Hands out the one informer of a resource, and starts what was asked for."""

    def __init__(
        self,
        client: Client,
        *,
        min_resync_period: float,
        gates: FeatureGates = DEFAULT_GATES,
        rng: random.Random,
        logger: Logger,
        metrics: InformerCollectors,
        most_watches: int = 0,
    ) -> None:
        """Take the client; each informer resyncs after 1 to 2 minimum periods.

        With `most_watches`, monitors beyond that number wait until another is
        given up: each takes a connection, and some must be left for writes.
        """
        self._most_watches = most_watches
        self._gates = gates
        self._client = client
        self._metrics = metrics
        self._min_resync_period = min_resync_period
        self._rng = rng
        self._logger = logger
        self._reads: dict[str, list[Reads]] = {}
        self._informers: dict[str, SharedInformer[Any]] = {}
        self._monitors: dict[str, SharedInformer[Any]] = {}
        self._group: asyncio.TaskGroup | None = None
        self._tasks: dict[SharedInformer[Any], asyncio.Task[None]] = {}

    def informer(
        self, resource: Resource[ObjectT], reads: Iterable[Reads] = ()
    ) -> SharedInformer[ObjectT]:
        """Return the informer of `resource`, the same for everyone.

        Its cache keeps what all who ask for it read together. Who declares nothing
        of this resource in `reads` reads everything.

        One that is new must be asked for before the factory runs: later nobody
        would wait for it. Raises RuntimeError then. Raises ClashError if somebody
        else has its objects decoded in another way.
        """
        key = _key(resource)
        declared = [each for each in reads if _key(each.resource) == key]
        for each in declared:
            _check_same(each.resource, resource)
        if key not in self._informers:
            if self._group is not None:
                msg = f"an informer of {key} was not asked for before the start"
                raise RuntimeError(msg)
            resync_period = self._min_resync_period * (1 + self._rng.random())
            self._informers[key] = self._made(resource, resync_period)
        informer = self._informers[key]
        _check_same(informer.resource, resource)
        self._reads.setdefault(key, []).extend(declared or [Reads(resource)])
        return cast("SharedInformer[ObjectT]", informer)

    def monitor(self, resource: Resource[Any]) -> SharedInformer[Any]:
        """Return an informer that knows of objects at least whose they are.

        It is the one that controllers share, if there is one; else one of
        metadata alone, which nobody waits for and which may be given up again.
        It is started at once if the factory runs. Raises ClashError if there is
        another monitor, which has the objects decoded in another way.
        """
        key = _key(resource)
        if key in self._informers:
            return self._informers[key]
        if key not in self._monitors:
            informer = self._monitors[key] = self._made(resource, 0)
            if resource.metadata_only:
                informer.set_transform(MonitorTransform())
            if self._group is not None:
                self._start_monitor(self._group, key, informer)
        _check_same(self._monitors[key].resource, resource)
        return self._monitors[key]

    def give_up(self, resource: Resource[Any]) -> None:
        """Stop the monitor of a resource, unless controllers share its informer."""
        informer = self._monitors.pop(_key(resource), None)
        if informer is None:
            return
        if task := self._tasks.pop(informer, None):
            task.cancel()
        for key, waiting in self._monitors.items():
            if self._group is not None and waiting not in self._tasks:
                self._start_monitor(self._group, key, waiting)
                return

    def _made(
        self, resource: Resource[ObjectT], resync_period: float
    ) -> SharedInformer[ObjectT]:
        return SharedInformer(
            self._client,
            resource,
            gates=self._gates,
            resync_period=resync_period,
            rng=self._rng,
            logger=self._logger,
            metrics=self._metrics.informer(
                resource.group, resource.version, resource.plural
            ),
        )

    async def run(self) -> None:
        """Run every informer that was or will be asked for, until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            for key, informer in self._informers.items():
                if transform := transform_for(informer.resource, self._reads[key]):
                    informer.set_transform(transform)
                self._start(group, key, informer)
            for key, informer in self._monitors.items():
                self._start_monitor(group, key, informer)
            try:
                await asyncio.Event().wait()
            finally:
                self._group = None

    def _start(
        self, group: asyncio.TaskGroup, key: str, informer: SharedInformer[Any]
    ) -> None:
        task = group.create_task(informer.run(), name=f"informer-{key}")
        self._tasks[informer] = task

    def _start_monitor(
        self, group: asyncio.TaskGroup, key: str, informer: SharedInformer[Any]
    ) -> None:
        if 0 < self._most_watches <= len(self._tasks):
            self._logger.warning(
                "Not watched, too few open files: what is of this resource is not "
                "collected; raise the limit (ulimit -n, LimitNOFILE=)",
                resource=informer.resource.group_resource,
                watches=len(self._tasks),
            )
            return
        self._start(group, key, informer)

    async def wait_for_sync(self) -> None:
        """Wait until every informer that was asked for is synced."""
        for informer in list(self._informers.values()):
            await informer.wait_for_sync()

    def all(self) -> list[SharedInformer[Any]]:
        """Return every informer that was asked for, monitors included."""
        return [*self._informers.values(), *self._monitors.values()]

    def shared(self) -> list[SharedInformer[Any]]:
        """Return the informers that controllers share, monitors aside."""
        return list(self._informers.values())


class ControllerInformers:
    """The factory as one controller sees it: it knows what that one has asked for."""

    def __init__(self, factory: InformerFactory, reads: Sequence[Reads] = ()) -> None:
        """Take the factory of all informers, and what the controller reads."""
        self._factory = factory
        self._reads = reads
        self._asked_for: dict[SharedInformer[Any], None] = {}

    def informer(self, resource: Resource[ObjectT]) -> SharedInformer[ObjectT]:
        """Return the informer of `resource`; see `InformerFactory.informer`."""
        informer = self._factory.informer(resource, self._reads)
        self._asked_for[informer] = None
        return informer

    def monitor(self, resource: Resource[Any]) -> SharedInformer[Any]:
        """Return an informer that nobody waits for; see `InformerFactory.monitor`."""
        return self._factory.monitor(resource)

    def give_up(self, resource: Resource[Any]) -> None:
        """Stop the monitor of a resource; see `InformerFactory.give_up`."""
        self._factory.give_up(resource)

    def all(self) -> list[SharedInformer[Any]]:
        """Return what the controller needs before it may start, monitors aside."""
        return list(self._asked_for)

    def unsynced(self) -> list[SharedInformer[Any]]:
        """Return what the controller still waits for."""
        return [each for each in self._asked_for if not each.is_synced]

    async def wait_for_sync(self) -> None:
        """Wait until all that the controller has asked for is synced."""
        for informer in self.all():
            await informer.wait_for_sync()


def _check_same(one: AnyResource, other: AnyResource) -> None:
    """Raise ClashError if two resources decode the objects of one store differently."""
    if (one.type, one.metadata_only) != (other.type, other.metadata_only):
        msg = (
            f"{_key(one)} is to be cached as {_form(one)} and as {_form(other)}: "
            "controllers share one cache, so let them use one Resource"
        )
        raise ClashError(msg)


def _form(resource: AnyResource) -> str:
    form = f"{resource.type.__module__}.{resource.type.__qualname__}"
    return f"{form} (metadata only)" if resource.metadata_only else form


def _name(resource: AnyResource) -> str:
    return f"{resource.api_version}/{resource.plural}"


def _key(resource: AnyResource) -> str:
    name = _name(resource)
    return f"{name}?{resource.field_selector}" if resource.field_selector else name
