"""All metrics of a daemon."""

from collections.abc import Callable
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry

from controller_manager.observability.certificates import CertificateCollector
from controller_manager.observability.kept_metrics import KeptRegistry
from controller_manager.observability.rollouts import RolloutCollector

from .client import ClientCollectors
from .errors import DefectCollectors
from .informers import CacheCollectors, InformerCollectors
from .loop import LoopCollectors
from .queues import QueueCollectors
from .syncs import SyncCollectors

CollectorsT = TypeVar("CollectorsT")


class Collectors:
    """All metrics of a daemon except those of the election."""

    def __init__(self, registry: CollectorRegistry, host: str, component: str) -> None:
        """Register the collectors; `host` is the API server's."""
        self._kept = KeptRegistry(registry)
        self._of_controllers: dict[Callable[..., Any], Any] = {}
        self.client = ClientCollectors(registry, host)
        self.caches = CacheCollectors(registry)
        self.certificates = CertificateCollector(registry)
        self.defects = DefectCollectors(registry)
        self.informers = InformerCollectors(registry, component)
        self.loop = LoopCollectors(registry)
        self.queues = QueueCollectors(registry)
        self.rollouts = RolloutCollector(registry)
        self.syncs = SyncCollectors(registry)

    def of(self, collectors: Callable[[CollectorRegistry], CollectorsT]) -> CollectorsT:
        """Return a controller's own collectors; they are registered once.

        `collectors` is their class. Controllers with the same class share them.
        """
        if collectors not in self._of_controllers:
            self._of_controllers[collectors] = collectors(self._kept)
        found: CollectorsT = self._of_controllers[collectors]
        return found

    def refresh(self) -> None:
        """Collect what controllers show, before another thread scrapes."""
        self._kept.refresh()
