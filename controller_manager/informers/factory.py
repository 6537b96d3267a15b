"""The factory of shared informers, and the informers that each controller requests."""

import asyncio
import random
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeVar, cast

from controller_manager.api.meta import (
    AnyResource,
    KubeObject,
    PartialMetadata,
    Resource,
)
from controller_manager.client.rest.client import Client, ListOptions
from controller_manager.client.rest.request import object_path
from controller_manager.observability.logs import Logger
from controller_manager.observability.metrics.client import InformerCollectors
from controller_manager.options.gates import FeatureGates

from .informer import DEFAULT_GATES, SharedInformer
from .reads import Kept, Reads, fields_of, kept_of
from .strict import DeclaredInformer, forbid_undeclared_reads, kept_of_metadata
from .transforms import (
    DROPPED_BY_MONITORS,
    MonitorTransform,
    decoder_for,
    transform_for,
)

ObjectT = TypeVar("ObjectT", bound=KubeObject)


class ClashError(ValueError):
    """Controllers need the objects of one resource in one cache as two types."""


class InformerFactory:
    """Returns the shared informer of each resource, and runs all of them."""

    def __init__(  # noqa: PLR0913 - one for each part that tests replace
        self,
        client: Client,
        *,
        min_resync_period: float,
        gates: FeatureGates = DEFAULT_GATES,
        rng: random.Random,
        logger: Logger,
        metrics: InformerCollectors,
        max_watches: int = 0,
        monitor_client: Client | None = None,
        strict_reads: bool = False,
    ) -> None:
        """Each informer resyncs after 1 to 2 minimum periods, which are in seconds.

        With `max_watches` greater than 0, a monitor beyond that number of watches
        waits until another monitor stops: each watch takes a connection, and some
        connections must remain for writes. Monitors list and watch with
        `monitor_client` if there is one: so the rate limit for hundreds of monitors
        delays no informer.

        With `strict_reads`, a controller that reads an undeclared field of a cached
        object gets UndeclaredReadError (see `informers.strict`).
        """
        self.strict_reads = strict_reads
        if strict_reads:
            forbid_undeclared_reads()
        self._monitor_client = monitor_client or client
        self._max_watches = max_watches
        self._gates = gates
        self._client = client
        self._metrics = metrics
        self._min_resync_period = min_resync_period
        self._rng = rng
        self._logger = logger
        self._reads: dict[str, list[Reads]] = {}
        self._informers: dict[str, SharedInformer[Any]] = {}
        self._monitors: dict[str, SharedInformer[Any]] = {}
        self._users: dict[str, int] = {}
        """The number of controllers that use each monitor."""
        self._types: dict[str, Resource[Any]] = {}
        """The resources whose monitors have more than metadata."""
        self._held: set[SharedInformer[Any]] = set()
        self._started_late: set[SharedInformer[Any]] = set()
        """The informers that are not started yet, see `hold`."""
        self._group: asyncio.TaskGroup | None = None
        self._tasks: dict[SharedInformer[Any], asyncio.Task[None]] = {}

    def informer(
        self, resource: Resource[ObjectT], reads: Iterable[Reads] = ()
    ) -> SharedInformer[ObjectT]:
        """Return the informer of `resource`, the same one for all controllers.

        Its cache keeps the union of the fields that its callers read. A caller that
        declares nothing of this resource in `reads` reads whole objects.

        Raises RuntimeError if a new informer is requested while the factory runs: no
        controller would wait for its cache. Raises ClashError if another caller needs
        the objects as another type.
        """
        key = _key(resource)
        declared = declared_of(resource, reads)
        if key not in self._informers:
            if self._group is not None:
                msg = f"an informer of {key} was not requested before the start"
                raise RuntimeError(msg)
            resync_period = self._min_resync_period * (1 + self._rng.random())
            self._informers[key] = self._make_informer(
                self._client, resource, resync_period
            )
        informer = self._informers[key]
        _check_same(informer.resource, resource)
        _check_same(self._types.get(key, resource), resource)
        self.start(informer)
        self._keep(key, declared or [Reads(resource)])
        return cast("SharedInformer[ObjectT]", informer)

    def hold(
        self, resource: Resource[ObjectT], reads: Iterable[Reads] = ()
    ) -> SharedInformer[ObjectT]:
        """Return the informer of `resource`, which runs once it is needed.

        As `informer`, but it is started only by `start`, or because `informer` or
        `monitor` returns it, too. Its caller waits for a resource that the API server
        lacks. The cache keeps the caller's fields from the start, so that it has them
        if another caller starts the informer earlier. Raises RuntimeError if the
        factory runs.
        """
        key = _key(resource)
        if self._group is not None:
            msg = f"the informer of {key} can be held before the start only"
            raise RuntimeError(msg)
        is_held = key not in self._informers or self._informers[key] in self._held
        informer = self.informer(resource, reads)
        if is_held:
            self._held.add(informer)
        return informer

    def start(self, informer: SharedInformer[Any]) -> None:
        """Start an informer that `hold` returned, unless it is started already."""
        if informer not in self._held:
            return
        self._held.remove(informer)
        if self._group is not None:
            self._started_late.add(informer)
            self._start(self._group, _key(informer.resource), informer)

    def was_late(self, informer: SharedInformer[Any]) -> bool:
        """Tell whether an informer was held when the factory began to run."""
        return informer in self._started_late

    def _keep(self, key: str, declared: Iterable[Reads]) -> None:
        kept = self._reads.setdefault(key, [])
        kept.extend(each for each in declared if each not in kept)

    async def read(
        self, resource: Resource[ObjectT], namespace: str, name: str
    ) -> ObjectT | None:
        """Return an object as it is in etcd, `None` if there is none.

        It is a list of one object with the identity that fills the caches: it may list
        every resource, but get only few. Raises InvalidName for an empty name or
        namespace: such a list would have other objects.
        """
        object_path(resource, namespace, name)
        options = ListOptions(field_selector=f"metadata.name={name}")
        page = await self._client.list_page(resource, namespace, options)
        return next(iter(page.items), None)

    def monitor(self, resource: Resource[Any]) -> SharedInformer[Any]:
        """Return an informer whose objects have at least their metadata.

        If controllers share an informer of the resource, it is that one. Otherwise it
        is a monitor: an informer that no controller waits for and that is stopped once
        each caller has called `stop_monitor`. If the factory runs, a monitor is started
        at once. A caller may read the metadata of the objects (`PartialMetadata`), and
        more only after `read_monitored`: another controller may have declared which
        fields the cache keeps. Raises ClashError if there is a monitor of the resource
        with another type.
        """
        key = _key(resource)
        if key in self._informers:
            if not resource.metadata_only:
                _check_same(self._informers[key].resource, resource)
            self.start(self._informers[key])
            return self._informers[key]
        resource = self._types.get(key, resource)
        self._users[key] = self._users.get(key, 0) + 1
        if key not in self._monitors:
            informer = self._monitors[key] = self._make_informer(
                self._monitor_client, resource, 0
            )
            if resource.metadata_only:
                informer.set_transform(MonitorTransform())
            elif transform := transform_for(resource, self._reads.get(key, ())):
                informer.set_transform(transform, decoder_for(transform))
            if self._group is not None:
                self._start_monitor(self._group, key, informer)
        _check_same(self._monitors[key].resource, resource)
        return self._monitors[key]

    def read_monitored(
        self, resource: Resource[Any], reads: Iterable[Reads] = ()
    ) -> None:
        """Have the monitor of a resource keep objects of this type, not only metadata.

        A controller calls it before the start for a resource that the API server need
        not have. The cache keeps the fields that the controller declares in `reads`; a
        controller that declares nothing of this resource reads whole objects. The same
        holds if other controllers share an informer of the resource.

        Raises RuntimeError if there is such a monitor already, or if the factory runs.
        Raises ClashError if another controller needs the objects as another type.
        """
        key = _key(resource)
        if key in self._monitors or self._group is not None:
            msg = f"the monitor of {key} keeps only metadata already"
            raise RuntimeError(msg)
        if key in self._types:
            _check_same(self._types[key], resource)
        if key in self._informers:
            _check_same(self._informers[key].resource, resource)
        self._types[key] = resource
        self._keep(key, declared_of(resource, reads) or [Reads(resource)])

    def stop_monitor(self, resource: Resource[Any]) -> None:
        """Stop the monitor of a resource if no other caller of `monitor` uses it."""
        stopped = _key(resource)
        self._users[stopped] = users = self._users.get(stopped, 1) - 1
        if users > 0:
            return
        del self._users[stopped]
        informer = self._monitors.pop(stopped, None)
        if informer is None:
            return
        if stopped not in self._informers:
            gone = informer.resource
            self._metrics.remove(gone.group, gone.version, gone.plural)
        if task := self._tasks.pop(informer, None):
            task.cancel()
            if self._group is not None:
                self._group.create_task(informer.release(), name=f"release-{stopped}")
        for key, waiting in self._monitors.items():
            if self._group is not None and waiting not in self._tasks:
                self._start_monitor(self._group, key, waiting)
                return

    def _make_informer(
        self, client: Client, resource: Resource[ObjectT], resync_period: float
    ) -> SharedInformer[ObjectT]:
        return SharedInformer(
            client,
            resource,
            gates=self._gates,
            resync_period=resync_period,
            rng=self._rng,
            logger=self._logger,
            metrics=self._metrics.informer(
                resource.group, resource.version, resource.plural, resource.cluster
            ),
        )

    async def run(self) -> None:
        """Run every informer, also monitors that are added later, until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            for key, informer in self._informers.items():
                if transform := transform_for(informer.resource, self._reads[key]):
                    informer.set_transform(transform, decoder_for(transform))
                if informer not in self._held:
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
        if 0 < self._max_watches <= len(self._tasks):
            self._logger.warning(
                "Not watched, too few open files: objects of this resource are neither "
                "garbage-collected nor counted for quotas; raise the limit (ulimit -n, "
                "LimitNOFILE=)",
                resource=informer.resource.group_resource,
                watches=len(self._tasks),
            )
            return
        self._start(group, key, informer)

    async def wait_for_sync(self) -> None:
        """Wait until every shared informer is synced; monitors do not count."""
        for informer in self.shared():
            await informer.wait_for_sync()

    def all(self) -> list[SharedInformer[Any]]:
        """Return all informers, including monitors."""
        return [*self.shared(), *self._monitors.values()]

    def shared(self) -> list[SharedInformer[Any]]:
        """Return the informers that controllers share, without monitors.

        Those that are held are left out.
        """
        return [each for each in self._informers.values() if each not in self._held]


def declared_of(resource: AnyResource, reads: Iterable[Reads]) -> list[Reads]:
    """Return the declarations of one resource.

    Raises ClashError if they declare its objects as another type.
    """
    declared = [each for each in reads if _key(each.resource) == _key(resource)]
    for each in declared:
        _check_same(each.resource, resource)
    return declared


def _check_same(one: AnyResource, other: AnyResource) -> None:
    """Raise ClashError if two resources need one cache with different types."""
    if (one.type, one.metadata_only) != (other.type, other.metadata_only):
        msg = (
            f"{_key(one)} is to be cached as {_form(one)} and as {_form(other)}: "
            "controllers share one cache, so let them use one Resource"
        )
        raise ClashError(msg)


def _form(resource: AnyResource) -> str:
    form = f"{resource.type.__module__}.{resource.type.__qualname__}"
    return f"{form} (metadata only)" if resource.metadata_only else form


def _key(resource: AnyResource) -> str:
    name = f"{resource.api_version}/{resource.plural}"
    if resource.cluster:
        name = f"{name} in {resource.cluster}"
    return f"{name}?{resource.field_selector}" if resource.field_selector else name


_METADATA_OF_MONITORS: Final = tuple(
    each.encode_name
    for each in fields_of(PartialMetadata)
    if each.name not in DROPPED_BY_MONITORS
)
"""The fields that callers of `monitor` may read."""


class ControllerInformers:
    """The factory for one controller, which remembers the informers it requested."""

    def __init__(
        self,
        factory: InformerFactory,
        reads: Sequence[Reads] = (),
        reader: str = "",
        *,
        is_held: bool = False,
    ) -> None:
        """With `is_held` no informer runs for this controller before `start`."""
        self._is_held = is_held
        self._factory = factory
        self._reads = reads
        self._reader = reader
        self._seen: dict[SharedInformer[Any], SharedInformer[Any]] = {}
        """The requested informers as the controller sees them."""
        self._requested: dict[SharedInformer[Any], None] = {}
        self._monitored: set[AnyResource] = set()
        """The resources of whose monitored objects more than metadata is read."""

    def informer(self, resource: Resource[ObjectT]) -> SharedInformer[ObjectT]:
        """Return the informer of `resource`; see `InformerFactory.informer`."""
        request = self._factory.hold if self._is_held else self._factory.informer
        informer = request(resource, self._reads)
        self._requested[informer] = None
        if informer not in self._seen:
            kept = kept_of(declared_of(resource, self._reads))
            self._seen[informer] = self._as_seen(informer, kept)
        return self._seen[informer]

    def _as_seen(
        self, informer: SharedInformer[ObjectT], kept: Kept | None
    ) -> SharedInformer[ObjectT]:
        """Return the informer, which gives only views in the strict mode.

        A controller that reads whole objects sees them, except for the functions that
        declare the parts on which they depend.
        """
        if not self._factory.strict_reads:
            return informer
        declared = DeclaredInformer(informer, kept, self._reader)
        return cast("SharedInformer[ObjectT]", declared)

    def start(self) -> None:
        """Start the informers that were held for this controller."""
        self._is_held = False
        for informer in self._requested:
            self._factory.start(informer)

    async def read(
        self, resource: Resource[ObjectT], namespace: str, name: str
    ) -> ObjectT | None:
        """Read one object from the API server; see `InformerFactory.read`."""
        return await self._factory.read(resource, namespace, name)

    def monitor(self, resource: Resource[Any]) -> SharedInformer[Any]:
        """Return a monitor of a resource; see `InformerFactory.monitor`."""
        informer = self._factory.monitor(resource)
        if informer.resource in self._monitored:
            kept = kept_of(declared_of(informer.resource, self._reads))
        else:
            kept = kept_of_metadata(_METADATA_OF_MONITORS)
        return self._as_seen(informer, kept)

    def read_monitored(self, resource: Resource[Any]) -> None:
        """Keep the declared fields; see `InformerFactory.read_monitored`."""
        self._factory.read_monitored(resource, self._reads)
        self._monitored.add(resource)

    def stop_monitor(self, resource: Resource[Any]) -> None:
        """Stop the monitor of a resource; see `InformerFactory.stop_monitor`."""
        self._factory.stop_monitor(resource)

    def all(self) -> list[SharedInformer[Any]]:
        """Return the informers that the controller waits for before it starts."""
        return list(self._requested)

    def unsynced(self) -> list[SharedInformer[Any]]:
        """Return the informers that the controller still waits for."""
        return [each for each in self._requested if not each.is_synced]

    async def wait_for_sync(self) -> None:
        """Wait until all informers of the controller are synced."""
        for informer in self.all():
            await informer.wait_for_sync()
