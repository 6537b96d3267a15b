"""What the controller remembers of each service between two syncs."""

from msgspec import Struct, field

from controller_manager.api.core.services import Service
from controller_manager.controllers.network.endpointslice.placement import Placement


class ServiceMemory(Struct):
    """One service: its slices that are right, and its pods that have changed.

    `changed` has their names in the order in which they changed. `skipped` are pods
    that have no endpoint since their node is not known.
    """

    service: Service
    placements: dict[str, Placement]
    changed: dict[str, None] = field(default_factory=dict)
    skipped: tuple[str, ...] = ()


class Memory:
    """All services that were synced completely.

    What is remembered of a service only saves work. If it is dropped, the next sync
    looks at all its pods and slices.
    """

    def __init__(self) -> None:
        """Start empty."""
        self._services: dict[str, ServiceMemory] = {}

    def __len__(self) -> int:
        """Return the number of services that are remembered."""
        return len(self._services)

    def of(self, key: str, service: Service) -> ServiceMemory | None:
        """Return what is known of a service; `None` if that is not enough to go on.

        Nothing is known any more once the service has changed.
        """
        known = self._services.get(key)
        return known if known is not None and known.service is service else None

    def start(
        self, key: str, service: Service, address_types: tuple[str, ...]
    ) -> ServiceMemory:
        """Remember a service from now on; the first sync looks at all its slices."""
        placements = {each: Placement() for each in address_types}
        made = self._services[key] = ServiceMemory(service, placements)
        return made

    def pod_changed(self, key: str, pod: str) -> None:
        """Note that a pod of a service has changed, or is gone."""
        if (known := self._services.get(key)) is not None:
            known.changed[pod] = None

    def forget(self, key: str) -> None:
        """Drop a service: it is gone, has changed, or its sync has failed."""
        self._services.pop(key, None)
