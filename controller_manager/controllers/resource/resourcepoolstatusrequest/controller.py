"""Writes the status of requests for the status of pools (controller.go)."""

from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from msgspec.structs import replace
from prometheus_client import CollectorRegistry, Counter, Histogram

from controller_manager.api.dynamicresources.v1 import (
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    ResourceSlice,
)
from controller_manager.api.dynamicresources.v1alpha3 import (
    RESOURCE_POOL_STATUS_REQUESTS,
    ResourcePoolStatusRequest,
    ResourcePoolStatusRequestStatus,
)
from controller_manager.api.meta import Condition, is_deleting, key_of
from controller_manager.api.scalars import format_time, parse_time
from controller_manager.client.rest import errors
from controller_manager.informers.store import Index
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import DONE, Done, Failed, Outcome
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.watches import For, Maps

from . import status

_SECONDS: Final = tuple(0.001 * 2**power for power in range(15))


class PoolStatusMetrics:
    """The ``resourcepoolstatusrequest_controller_*`` metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        prefix = "resourcepoolstatusrequest_controller"

        def counter(name: str, text: str) -> Counter:
            return Counter(f"{prefix}_{name}", text, ["driver_name"], registry=registry)

        self._processed = counter(
            "requests_processed_total",
            "Number of answers to ResourcePoolStatusRequests, also of failed ones",
        )
        self._errors = counter(
            "request_processing_errors_total",
            "Number of answers to ResourcePoolStatusRequests that could not be written",
        )
        self._seconds = Histogram(
            f"{prefix}_request_processing_duration_seconds",
            "Seconds that an answer to a ResourcePoolStatusRequest took",
            ["driver_name"],
            buckets=_SECONDS,
            registry=registry,
        )

    def processed(self, driver: str, seconds: float, *, failed: bool) -> None:
        """Observe one response."""
        self._processed.labels(driver).inc()
        self._seconds.labels(driver).observe(seconds)
        if failed:
            self._errors.labels(driver).inc()


_KEPT: Final = 3600.0
"""Seconds for which a request stays after its response."""

_PATIENCE: Final = 24 * 3600.0
"""Seconds for which a request waits for a response."""

_ENDS: Final = ("Complete", "Failed")

_ERRORS: Final = (errors.APIError, errors.ProtocolError, errors.TransportError)


def _asked_driver(request: ResourcePoolStatusRequest) -> Iterable[str]:
    return () if request.status is not None else (request.spec.driver,)


SLICES: Final = Index(
    "driver",
    lambda each: (each.spec.driver,),
    lambda old, new: old.spec.driver == new.spec.driver,
)
"""Slices by their driver."""

ALLOCATIONS: Final = Index(
    "allocated driver",
    status.drivers_of,
    lambda old, new: set(status.drivers_of(old)) == set(status.drivers_of(new)),
)
"""Claims by the drivers of their allocated devices."""

OPEN: Final = Index(
    "asked driver",
    _asked_driver,
    lambda old, new: _asked_driver(old) == _asked_driver(new),
)
"""Requests without a response, by their driver."""


class PoolStatusReconciler(Reconciler[ResourcePoolStatusRequest]):
    """Responds to each request once, as soon as the requested pools are complete."""

    def _asking(self, found: ResourceSlice) -> Iterable[str]:
        return map(key_of, self._open.by_index(OPEN, found.spec.driver))

    watches = (For(RESOURCE_POOL_STATUS_REQUESTS), Maps(RESOURCE_SLICES, _asking))

    def __init__(self, context: ControllerContext) -> None:
        self._open = context.lister(RESOURCE_POOL_STATUS_REQUESTS, OPEN)
        self._slices = context.lister(RESOURCE_SLICES, SLICES)
        self._claims = context.lister(RESOURCE_CLAIMS, ALLOCATIONS)
        self._metrics = context.metrics.of(PoolStatusMetrics)
        super().__init__(context)

    async def reconcile(self, request: ResourcePoolStatusRequest) -> Outcome:
        """Respond to a request, or delete it when its time is over."""
        if is_deleting(request):
            return DONE
        requeue_after = self._requeue_after(request)
        try:
            if request.status is None and await self._answer(request):
                return DONE
        except _ERRORS as error:
            return Failed(error, requeue_after)
        if requeue_after > 0:
            return Done(requeue_after)
        with suppress(errors.NotFound):
            await self.client.delete_exactly(self.resource, request, same_version=True)
        return DONE

    async def _answer(self, request: ResourcePoolStatusRequest) -> bool:
        """Respond to a request; return False if its pools are incomplete."""
        began = self.clock.monotonic()
        driver = request.spec.driver
        found = status.answer(
            request.spec,
            self._slices.by_index(SLICES, driver),
            self._claims.by_index(ALLOCATIONS, driver),
        )
        if found.incomplete:
            self.logger.v(2).info(
                "Waiting for the slices of pools",
                request=request.metadata.name,
                missing=found.incomplete[0],
            )
            return False
        now = format_time(self.context.server_clock.now())
        answered = replace(request, status=_status(found, now))
        failed = False
        try:
            await self.client.update_for_metadata(self.resource, answered, "status")
        except _ERRORS:
            failed = True
            raise
        finally:
            seconds = self.clock.monotonic() - began
            self._metrics.processed(driver, seconds, failed=failed)
        return True

    def _requeue_after(self, request: ResourcePoolStatusRequest) -> float:
        since, kept = request.metadata.creation_timestamp, _PATIENCE
        if request.status is not None:
            kept = _KEPT
            for each in request.status.conditions or ():
                if each.type in _ENDS:
                    since = each.last_transition_time or since
        age = self.context.server_clock.now() - parse_time(since or "")
        return kept - age.total_seconds()


def _status(found: status.Answer, now: str) -> ResourcePoolStatusRequestStatus:
    complete = Condition(
        type="Complete",
        status="True",
        last_transition_time=now,
        reason="CalculationComplete",
        message=f"Calculated status for {len(found.pools)} pools",
    )
    return ResourcePoolStatusRequestStatus(
        pool_count=found.count, pools=found.pools or None, conditions=(complete,)
    )
