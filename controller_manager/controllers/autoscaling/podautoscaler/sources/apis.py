"""All metrics APIs of a controller."""

from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from controller_manager.api.autoscaling.v2 import MetricSpec
from controller_manager.client.client import Client
from controller_manager.client.resource_mapper import ResourceMapper
from controller_manager.clock import Clock
from controller_manager.controllers.autoscaling.podautoscaler.sources import (
    custom,
    external,
    reading,
    resource,
    versions,
)

SHARES: Final = 4
"""Into how many parts the requests in flight are divided: three APIs and the others."""


class Sources:
    """The metrics APIs, by the types of metrics that are read from them."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        resources: ResourceMapper,
        *,
        concurrency: int,
        sync_period: float,
    ) -> None:
        """Take the controller's client, and how often an autoscaler is synced (s).

        Each API gets at most `concurrency` requests at a time. The client of
        the controller lets `SHARES` times as many through, so some are left for others.
        """

        def api(group: str) -> reading.MetricsAPI:
            return reading.MetricsAPI(client, clock, group, concurrency)

        version = versions.ServedVersion(
            client, clock, custom.GROUP, custom.VERSIONS, sync_period
        )
        self.resource = resource.ResourceMetrics(api(resource.GROUP))
        self.custom = custom.CustomMetrics(api(custom.GROUP), resources, version)
        self.external = external.ExternalMetrics(api(external.GROUP))

    @asynccontextmanager
    async def slots(self, metrics: Iterable[MetricSpec]) -> AsyncIterator[None]:
        """Keep a slot of each API that these metrics need while entered.

        Whoever reads the scale first, and gives up because no slot is free, has to read
        it again. Raises APIStuck if an API has no slot within a second. Slots are taken
        in the order of the names, so two syncs never wait for each other.
        """
        needed = {each.group: each for each in self._apis(metrics)}
        async with AsyncExitStack() as stack:
            for group in sorted(needed):
                await stack.enter_async_context(needed[group].slot())
            yield

    def busy(self, metrics: Iterable[MetricSpec]) -> reading.MetricsAPI | None:
        """Return an API that these metrics need and that cannot be asked now."""
        return next((each for each in self._apis(metrics) if each.is_busy), None)

    def _apis(self, metrics: Iterable[MetricSpec]) -> Iterator[reading.MetricsAPI]:
        for each in metrics:
            match each.type:
                case "Resource" | "ContainerResource":
                    yield self.resource.api
                case "Pods" | "Object":
                    yield self.custom.api
                case "External":
                    yield self.external.api
