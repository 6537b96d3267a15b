"""Keeps ranges while services use them.

Upstream: pkg/controller/servicecidrs/servicecidrs_controller.go.
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from controller_manager.api import meta
from controller_manager.api.networking import v1
from controller_manager.api.scalars import format_time, parse_time
from controller_manager.client.events.recorder import WARNING
from controller_manager.client.rest.client import ListOptions
from controller_manager.client.rest.errors import Conflict, NotFound
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import DONE, Done, Outcome
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.watches import For, Maps

from . import cidrs

FIELD_MANAGER: Final = "service-cidr-controller"
"""The manager of the condition, in managedFields; upstream's."""

FINALIZER: Final = "networking.k8s.io/service-cidr-finalizer"
GRACE_PERIOD: Final = 10.0
"""Seconds until all API servers know that a range is deleted, and stop using it."""

READY: Final = {
    "type": "Ready",
    "status": "True",
    "reason": "",
    "message": "Kubernetes Service CIDR is ready",
}
TERMINATING: Final = {
    "type": "Ready",
    "status": "False",
    "reason": "Terminating",
    "message": (
        "There are still IPAddresses referencing the ServiceCIDR, please remove them "
        "or create a new ServiceCIDR"
    ),
}


def has_condition(service_cidr: v1.ServiceCIDR, wanted: dict[str, str]) -> bool:
    """Tell whether a range has this condition, with any time of transition."""
    found = meta.find_condition(service_cidr.status.conditions, wanted["type"])
    return found is not None and all(
        getattr(found, name) == value for name, value in wanted.items()
    )


def is_protected(service_cidr: v1.ServiceCIDR) -> bool:
    """Tell whether a range has the finalizer."""
    return FINALIZER in (service_cidr.metadata.finalizers or ())


class ServiceCIDRReconciler(Reconciler[v1.ServiceCIDR]):
    """Keeps a deleted range until each address in use is also in another range."""

    queue_name = "ipaddresses"
    workers = 5

    def _deleted_overlapping(self, service_cidr: v1.ServiceCIDR) -> Iterable[str]:
        return [
            meta.key_of(each)
            for each in self._deleted_ranges()
            if any(
                cidrs.overlap(one, other)
                for one in cidrs.ranges_of(each)
                for other in cidrs.ranges_of(service_cidr)
            )
        ]

    def _deleted_containing(self, obj: meta.PartialObject) -> Iterable[str]:
        address = cidrs.allocated_address(obj)
        if address is None:
            return ()
        return [
            meta.key_of(each)
            for each in self._deleted_ranges()
            if cidrs.holds(each, address)
        ]

    watches = (
        For(v1.SERVICE_CIDRS),
        Maps(v1.SERVICE_CIDRS, _deleted_overlapping),
        Maps(v1.IP_ADDRESS_METADATA, _deleted_containing),
    )

    def __init__(self, context: ControllerContext) -> None:
        self._ranges = context.lister(v1.SERVICE_CIDRS, cidrs.BY_DELETION)
        self._addresses = context.lister(v1.IP_ADDRESS_METADATA)
        super().__init__(context)
        self._server_clock = context.server_clock

    async def reconcile(self, service_cidr: v1.ServiceCIDR) -> Outcome:
        """Protect a range, or release a deleted one that no address needs."""
        if not meta.is_deleting(service_cidr):
            if not is_protected(service_cidr):
                done = "Added protection finalizer to ServiceCIDR"
                await self._patch_finalizers(service_cidr, "finalizers", done)
            await self._report_ready(service_cidr)
            return DONE
        blocking = self._cached_blocking_address(service_cidr)
        if blocking is None:
            deleted = parse_time(service_cidr.metadata.deletion_timestamp or "")
            passed = (self._server_clock.now() - deleted).total_seconds()
            if passed < GRACE_PERIOD:
                return Done(GRACE_PERIOD - passed)
            if is_protected(service_cidr):
                blocking = await self._read_blocking_address(service_cidr)
        if blocking is not None:
            self.logger.info(
                "Deleting ServiceCIDR blocked by IP address",
                ServiceCIDR=meta.key_of(service_cidr),
                IPAddress=str(blocking),
            )
            await self._set_condition(service_cidr, TERMINATING)
        elif is_protected(service_cidr):
            field = "$deleteFromPrimitiveList/finalizers"
            done = "Removed protection finalizer from ServiceCIDR"
            await self._patch_finalizers(service_cidr, field, done)
        return DONE

    # Deciding

    def _deleted_ranges(self) -> Iterable[v1.ServiceCIDR]:
        return self._ranges.by_index(cidrs.BY_DELETION, cidrs.DELETED)

    def _cached_blocking_address(
        self, service_cidr: v1.ServiceCIDR
    ) -> cidrs.Address | None:
        others = cidrs.successors(service_cidr, self._ranges.all())
        if cidrs.is_covered(service_cidr, others):
            return None
        cached = self._addresses.all()
        return cidrs.uncovered_address(service_cidr, others, cached)

    async def _read_blocking_address(
        self, service_cidr: v1.ServiceCIDR
    ) -> cidrs.Address | None:
        """Return such an address from the objects of the API server.

        Upstream trusts its caches. A cache that is older than the grace period would
        release a range from which an address was allocated.
        """
        pages = [page async for page in self.client.list_all(v1.SERVICE_CIDRS)]
        live = [each for page in pages for each in page.items]
        others = cidrs.successors(service_cidr, live)
        if cidrs.is_covered(service_cidr, others):
            return None
        options = ListOptions(label_selector=f"{v1.MANAGED_BY}={v1.ALLOCATOR}")
        async for page in self.client.list_all(v1.IP_ADDRESS_METADATA, "", options):
            address = cidrs.uncovered_address(service_cidr, others, page.items)
            if address is not None:
                return address
        return None

    # Writing

    async def _patch_finalizers(
        self, service_cidr: v1.ServiceCIDR, field: str, done: str
    ) -> None:
        patch = {"metadata": {field: [FINALIZER]}}
        with suppress(NotFound):
            resource = meta.metadata_of(v1.SERVICE_CIDRS)
            await self.client.patch_exactly(resource, service_cidr, patch)
        self.logger.v(4).info(done, ServiceCIDR=meta.key_of(service_cidr))

    async def _report_ready(self, service_cidr: v1.ServiceCIDR) -> None:
        try:
            await self._set_condition(service_cidr, READY)
        except (NotFound, Conflict):
            raise  # it was deleted or replaced in the meantime
        except Exception:
            self.recorder.event(
                v1.SERVICE_CIDRS,
                service_cidr,
                WARNING,
                "KubernetesServiceCIDRError",
                "The ServiceCIDR Status can not be set to Ready=True",
            )
            raise

    async def _set_condition(
        self, service_cidr: v1.ServiceCIDR, condition: dict[str, str]
    ) -> None:
        if has_condition(service_cidr, condition):
            return
        now = format_time(self.clock.now())
        status = {"conditions": [{**condition, "lastTransitionTime": now}]}
        known = service_cidr.metadata
        metadata = {"name": known.name, "uid": known.uid}
        config = {"metadata": metadata, "status": status}
        await self.client.apply(v1.SERVICE_CIDRS, config, FIELD_MANAGER, "status")
