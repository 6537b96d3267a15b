"""What the controller remembers of each service between two syncs."""

from typing import Final

from msgspec import Struct, field

from controller_manager.api.core.services import Service
from controller_manager.clock import Clock
from controller_manager.controllers.network.endpointslice.placement import Placement

_LONGEST: Final = 3600.0
"""Seconds after which a sync looks at everything again.

No event is ever lost that the caches get. If one were all the same, the resync of the
services would put their slices right, as upstream.
"""


class ServiceMemory(Struct):
    """One service: its slices that are right, and its pods that have changed.

    `changed` has their names in the order in which they changed. `skipped` are pods
    that have no endpoint since their node is not known.
    """

    service: Service
    since: float
    placements: dict[str, Placement]
    changed: dict[str, None] = field(default_factory=dict)
    skipped: tuple[str, ...] = ()


class Memory:
    """All services that were synced completely.

    What is remembered of a service only saves work. If it is dropped, the next sync
    looks at all its pods and slices.
    """

    def __init__(self, clock: Clock) -> None:
        """Take the clock; start empty."""
        self._clock = clock
        self._services: dict[str, ServiceMemory] = {}

    def __len__(self) -> int:
        """Return the number of services that are remembered."""
        return len(self._services)

    def of(self, key: str, service: Service) -> ServiceMemory | None:
        """Return what is known of a service; `None` if that is not enough to go on.

        Nothing is known any more once the service has changed, and after an hour.
        """
        known = self._services.get(key)
        if known is None or known.service is not service:
            return None
        return known if self._clock.monotonic() - known.since < _LONGEST else None

    def start(
        self, key: str, service: Service, address_types: tuple[str, ...]
    ) -> ServiceMemory:
        """Remember a service from now on; the first sync looks at all its slices."""
        placements = {each: Placement() for each in address_types}
        made = ServiceMemory(service, self._clock.monotonic(), placements)
        self._services[key] = made
        return made

    def pod_changed(self, key: str, pod: str) -> None:
        """Note that a pod of a service has changed, or is gone."""
        if (known := self._services.get(key)) is not None:
            known.changed[pod] = None

    def forget(self, key: str) -> None:
        """Drop a service: it is gone, has changed, or its sync has failed."""
        self._services.pop(key, None)
