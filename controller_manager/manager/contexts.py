"""Makes the context of each controller."""

import random

from msgspec import Struct

from controller_manager.client.builder import ClientBuilder
from controller_manager.client.client import Client, WriteHook, ignore_write
from controller_manager.client.resource_mapper import ResourceMapper
from controller_manager.clock import Clock
from controller_manager.informers.controller_informers import ControllerInformers
from controller_manager.observability.logs import Logger
from controller_manager.observability.metrics.collectors import Collectors
from controller_manager.options.config import Config
from controller_manager.runtime.consistency import ConsistencyStore
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.turns import Turns

from .events import EventBroadcasters


class Contexts(Struct, frozen=True):
    """Makes the context of each controller from the parts that all share."""

    config: Config
    clients: ClientBuilder
    events: EventBroadcasters
    clock: Clock
    rng: random.Random
    logger: Logger
    root_ca: str
    turns: Turns
    metrics: Collectors
    resources: ResourceMapper

    def make(
        self, descriptor: Descriptor, informers: ControllerInformers
    ) -> ControllerContext:
        """Return the context that the init function of a controller receives."""
        # Events have their own rate limit, so that a burst of them does not delay
        # syncs.
        recorder = self.events.make(self._client(descriptor), descriptor.source)
        consistency = ConsistencyStore(informers)
        return ControllerContext(
            name=descriptor.name,
            config=self.config,
            client=self._client(descriptor, consistency.record_write),
            informers=informers,
            recorder=recorder,
            clock=self.clock,
            server_clock=self.clients.server_clock,
            rng=self.rng,
            logger=self.logger.bind(component=descriptor.name),
            root_ca=self.root_ca,
            turns=self.turns,
            metrics=self.metrics,
            consistency=consistency,
            resources=self.resources,
            reader=self.clients.manager(),
        )

    def _client(
        self, descriptor: Descriptor, on_write: WriteHook = ignore_write
    ) -> Client:
        wide = descriptor.in_flight
        return self.clients.controller(
            descriptor.name,
            descriptor.account,
            descriptor.qps_factor,
            descriptor.burst_factor,
            on_write,
            in_flight=0 if wide is None else wide(self.config),
        )
