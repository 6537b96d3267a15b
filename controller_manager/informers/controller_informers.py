"""The informers that one controller has requested from the factory."""

from collections.abc import Sequence
from typing import Any, Final, TypeVar, cast

from controller_manager.api.meta import (
    AnyResource,
    KubeObject,
    PartialMetadata,
    Resource,
)

from .factory import InformerFactory, declared_of
from .informer import SharedInformer
from .reads import Reads, fields_of
from .strict.informer import DeclaredInformer
from .strict.views import kept_of_metadata
from .transforms import DROPPED_BY_MONITORS
from .trimming import Kept, kept_of

ObjectT = TypeVar("ObjectT", bound=KubeObject)

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
        """Take the factory, the fields that the controller reads, and its name.

        With `is_held` the informers do not run for this controller before `start`.
        """
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
