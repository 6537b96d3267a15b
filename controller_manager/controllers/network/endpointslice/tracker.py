"""Keeps the slices that are right, so that a sync checks only the others.

A service of 5,000 pods has 50 slices. Without the tracker, each change of one pod costs
a walk over 5,000 pods and 5,000 endpoints.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct, field

from controller_manager.api.core.services import Service
from controller_manager.api.discovery.v1 import EndpointSlice
from controller_manager.clock import Clock
from controller_manager.control.endpoints.slices import SliceActions


class SettledSlices:
    """The slices of one address type of a service, and the pods in them.

    A slice is settled once a sync has found that this version of it has only desired
    endpoints, all of them up to date. It stays settled until the cache shows another
    version, or until one of its pods changes. Each pod of the service that has an
    endpoint is in a settled slice or is unsettled; a sync checks the unsettled pods.
    """

    def __init__(self) -> None:
        self._settled: dict[str, EndpointSlice] = {}
        self._slice_of: dict[str, str] = {}
        self._unsettled: dict[str, None] = {}
        """Pods that the next sync checks, in the order in which they are put into
        slices.
        """

    def start_sync(
        self, cached: Sequence[EndpointSlice], changed: Iterable[str]
    ) -> tuple[tuple[EndpointSlice, ...], tuple[str, ...]]:
        """Return the settled slices of the cache, and the names of the pods to check.

        `changed` has the names of the pods that have changed since the last sync, or
        are gone.
        """
        by_name = {each.metadata.name: each for each in cached}
        for name, settled in list(self._settled.items()):
            if by_name.get(name) is not settled:
                self._unsettle(name)
        for pod in changed:
            self._unsettled[pod] = None
            if (name_of_slice := self._slice_of.get(pod)) is not None:
                self._unsettle(name_of_slice)
        return tuple(self._settled.values()), tuple(self._unsettled)

    def finish_sync(self, changes: SliceActions) -> None:
        """Take the actions of the sync after they were written.

        A written slice is settled only when a later sync finds it right: until the
        cache shows it, another client may have changed it.
        """
        for each in changes.update:
            if each.metadata.name in self._settled:
                self._unsettle(each.metadata.name)
        self._unsettled = {
            pod: None
            for each in (*changes.create, *changes.update)
            for pod in _pods_in(each)
        }
        for each in changes.unchanged:
            name = each.metadata.name
            if name not in self._settled and each.endpoints:
                self._settled[name] = each
                self._slice_of.update(dict.fromkeys(_pods_in(each), name))

    def _unsettle(self, name: str) -> None:
        for pod in _pods_in(self._settled.pop(name)):
            self._slice_of.pop(pod, None)
            self._unsettled[pod] = None


def _pods_in(each: EndpointSlice) -> Iterator[str]:
    for endpoint in each.endpoints or ():
        if endpoint.target_ref is not None:
            yield endpoint.target_ref.name


_LONGEST: Final = 3600.0
"""Seconds after which a sync checks all pods and slices again.

The caches lose no event. If one was lost nevertheless, the resync of the services would
correct their slices, as upstream.
"""


class TrackedService(Struct):
    """One service: its slices that are right, and its pods that have changed.

    `changed` has the names of the pods in the order in which they changed. `skipped`
    are pods that have no endpoint because their node is not cached.
    """

    service: Service
    since: float
    settled_slices: dict[str, SettledSlices]
    changed: dict[str, None] = field(default_factory=dict)
    skipped: tuple[str, ...] = ()


class ServiceTracker:
    """All services that were synced completely.

    The state of a service only saves work. If it is dropped, the next sync checks all
    pods and slices of the service.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._services: dict[str, TrackedService] = {}

    def of(self, key: str, service: Service) -> TrackedService | None:
        """Return the state of a service, `None` if the next sync must check everything.

        That is so after the service has changed, and after an hour.
        """
        known = self._services.get(key)
        if known is None or known.service is not service:
            return None
        return known if self._clock.monotonic() - known.since < _LONGEST else None

    def start(
        self, key: str, service: Service, address_types: tuple[str, ...]
    ) -> TrackedService:
        """Begin to track a service; the first sync checks all its slices."""
        settled_slices = {each: SettledSlices() for each in address_types}
        made = TrackedService(service, self._clock.monotonic(), settled_slices)
        self._services[key] = made
        return made

    def pod_changed(self, key: str, pod: str) -> None:
        """Store that a pod of a service has changed, or is gone."""
        if (known := self._services.get(key)) is not None:
            known.changed[pod] = None

    def forget(self, key: str) -> None:
        """Drop a service that is gone, that has changed, or whose sync has failed."""
        self._services.pop(key, None)
