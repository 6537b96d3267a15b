"""The manager: its groups of runnables, and the order in which they run."""

import asyncio
import os
import random
import time
from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry

from controller_manager.client.builder import ClientBuilder, Connections
from controller_manager.clock import Clock
from controller_manager.informers.factory import InformerFactory
from controller_manager.observability.connections import ConnectionCollectors
from controller_manager.observability.defects import Defects
from controller_manager.observability.logs import Logger
from controller_manager.observability.metrics.collectors import Collectors
from controller_manager.observability.metrics.manager import STUCK_ROLLOUTS
from controller_manager.observability.process import register_process
from controller_manager.options.config import Config
from controller_manager.options.gates import gate_values
from controller_manager.runtime.admission import WebhookOptions
from controller_manager.runtime.registry import Registry
from controller_manager.runtime.worker import Turns, done_before
from controller_manager.serving.pages import Pages
from controller_manager.serving.server import Server

from .caches import CacheGroup
from .control_loop import ControlLoop, InMainLoop
from .controllers import ControllerGroup, EventBroadcasters
from .ownership import Elections, MigrationGroup, OwnershipGroup
from .preview import PreviewGroup, make_preview, without_writes
from .runnable import Checks, Lifetime, Runnable
from .selection import migrated_controllers, warn_of_left_out_controllers
from .servers import ServerGroup
from .startup import StartUp
from .stuck_rollouts import StuckRollouts
from .waiting_controllers import WaitingControllers

STRICT_READS: Final = "CONTROLLER_MANAGER_STRICT_READS"
"""The environment variable that switches on `informers.strict`.

Its value is then "true". Compare KUBE_CACHE_MUTATION_DETECTOR of client-go.
"""

_FILES_FOR_REQUESTS: Final = 64
_LEAST_WATCHES: Final = 16


class ControllerManager:
    """The daemon: runs controllers with a config and connections.

    The order is: serve; wait for the API server; discover its resources; make the
    controllers; start the informers. Once the caches are synced and, with leader
    election, this process leads, the workers start, one controller after the other.
    A standby has done all but the last step. If a cache does not sync, the
    controllers that need it wait; the others start after a timeout.
    """

    def __init__(  # noqa: PLR0913 - one for each thing that differs
        self,
        config: Config,
        connections: Connections,
        *,
        clock: Clock,
        rng: random.Random,
        logger: Logger,
        build: Registry,
        registry: CollectorRegistry | None = None,
        work_clock: Callable[[], float] = time.perf_counter,
        open_files: int = 0,
        control_loop: ControlLoop | None = None,
    ) -> None:
        """Take all parts from outside; the caller closes the connections.

        Lease and endpoints run in `control_loop`; by default this is the main loop.
        `build` has all controllers of this build.
        `work_clock` measures, in seconds, how long workers block the event loop.
        `open_files` is the limit of open files of this process, 0 for no limit.
        """
        self._build = build
        self._config = config
        self._clock = clock
        self._rng = rng
        self._logger = logger
        self._control_loop = control_loop or InMainLoop()
        self._registry = registry or CollectorRegistry()
        component = build.component
        self._metrics = Collectors(self._registry, connections.manager.host, component)
        self._metrics.loop.stalled_for(self._control_loop.silence)
        self._preview = self._make_preview(connections)
        self.preview = self._preview.preview
        """The preview, `None` for a manager that writes."""
        self._connections = without_writes(connections, self.preview)
        self._register_component(connections)
        self._clients = self._make_clients()
        count_defect = self._metrics.defects.count
        self._events = EventBroadcasters(clock, rng, logger, count_defect)
        self.informers = self._make_informers(_most_watches(open_files))
        """The informers that all controllers share."""
        self._caches = CacheGroup(self.informers, self._metrics.caches, logger)
        self.synced = self._caches.synced
        """Set once all caches are synced."""
        self.controllers = ControllerGroup(config.generic, rng, logger, count_defect)
        """The selected controllers whose resources the API server has."""
        self._make_ownership()
        self._make_controllers(work_clock)
        self._servers = self._make_servers()
        self._webhooks = self._make_webhooks()
        self.started = asyncio.Event()
        """Set once all controllers have been started."""

    def _register_component(self, connections: Connections) -> None:
        """Register the metrics of the process, the build and the connections."""
        registry, config = self._registry, self._config
        emulated = config.emulated_version
        gates = gate_values(
            self._build.gates,
            config.features,
            config.given_gates,
            int(emulated.partition(".")[2]),
        )
        register_process(registry, emulated, gates, config.disabled_metrics)
        ConnectionCollectors(
            registry,
            lambda: connections.counts().plugin_calls,
            lambda: connections.counts().reloads,
        )
        self._metrics.certificates.show("client", connections.certificates)
        connections.look_ups.register(registry)

    def _make_preview(self, connections: Connections) -> PreviewGroup:
        preview = make_preview(
            self._config.preview,
            connections,
            self._build.not_selected(self._config.generic.controllers),
            clock=self._clock,
            rng=self._rng,
            registry=self._registry,
            logger=self._logger,
        )
        defects = Defects(self._logger, self._metrics.defects.count)
        return PreviewGroup(preview, defects)

    def _make_clients(self) -> ClientBuilder:
        return ClientBuilder(
            self._connections,
            self._config.client,
            clock=self._clock,
            metrics=self._metrics.client,
            logger=self._logger,
            metrics_of=self._metrics.client.of_host,
        )

    def _make_informers(self, most_watches: int) -> InformerFactory:
        return InformerFactory(
            self._clients.manager(),
            min_resync_period=self._config.generic.min_resync_period,
            gates=self._config.features,
            rng=self._rng,
            logger=self._logger.bind(component="informers"),
            metrics=self._metrics.informers,
            max_watches=most_watches,
            strict_reads=os.environ.get(STRICT_READS) == "true",
            monitor_client=self._clients.monitors(),
        )

    def _make_ownership(self) -> None:
        """Make the groups that hold the leases, and fence the clients by them."""
        # Clients of its own, which share no state with those of the main loop. They are
        # not fenced: the last event says that this process leads no more.
        clients = self._make_clients()
        elections = Elections(
            self._config,
            clients,
            self._control_loop,
            lambda: self._events.apart(clients.election(), self._build.component),
            clock=self._clock,
            rng=self._rng,
            registry=self._registry,
            logger=self._logger.bind(component="leaderelection"),
            count_defect=self._metrics.defects.count,
        )
        self._ownership = elections.main()
        self.elector = self._ownership.elector
        """The leader elector, `None` without leader election."""
        self._clients.fence(self._ownership.ownership)
        self._migrated = migrated_controllers(self._build, self._config.generic)
        migration = OwnershipGroup(None, self._control_loop)
        if self._migrated:
            migration = elections.migration()
            self._clients.fence(migration.ownership, self._migrated)
        self._migration = MigrationGroup(
            self._migrated, migration, self.controllers.own, self._logger
        )

    def _make_controllers(self, work_clock: Callable[[], float]) -> None:
        """Make the parts that make controllers, await their resources, and count."""
        self._startup = StartUp(
            self._build,
            self._config,
            self._clients,
            self.informers,
            self._events,
            clock=self._clock,
            rng=self._rng,
            logger=self._logger,
            root_ca=self._connections.root_ca,
            turns=Turns(clock=work_clock, on_turn=self._metrics.loop.turned),
            metrics=self._metrics,
        )
        self._awaited = WaitingControllers(
            self._startup,
            self._caches,
            self.controllers,
            self._clients.manager(),
            self._logger,
        )
        is_shown = STUCK_ROLLOUTS not in self._config.disabled_metrics
        self._stuck = StuckRollouts(
            self.informers.shared,
            self._build.find_root_cause if is_shown else None,
            self._clients.explainer(),
            self._clients.server_clock,
            show=self._metrics.rollouts.show,
            count_defect=self._metrics.defects.count,
            logger=self._logger.bind(component="stuck-rollouts"),
        )

    def _make_servers(self) -> ServerGroup:
        pages = Pages(
            self.healthz,
            self.readyz,
            self._registry,
            self._refresh,
            self.controllers.debug_pages,
            self.controllers.key_reports,
            self._clock.now(),
            self._control_loop,
            self._health_beside,
            self._preview.page,
            self._build.component,
            self._build.version,
        )
        return ServerGroup(
            self._config,
            self._connections,
            pages,
            self._control_loop,
            clock=self._clock,
            metrics=self._metrics,
            logger=self._logger,
        )

    def _make_webhooks(self) -> Runnable | None:
        """Return what serves webhooks, `None` without any, and in a preview."""
        is_on = self._config.of(WebhookOptions).port and not self.preview
        if not self._build.has_webhooks or not is_on:
            return None
        from .webhooks import WebhookGroup  # noqa: PLC0415 - few processes need it

        return WebhookGroup(
            self._build,
            self._config,
            self._clients,
            clock=self._clock,
            metrics=self._metrics,
            logger=self._logger.bind(component="webhooks"),
        )

    @property
    def is_idle(self) -> bool:
        """True if no key waits or is being processed; delayed keys do not count."""
        return self.controllers.is_idle

    @property
    def server(self) -> Server | None:
        """The HTTPS server, once it runs."""
        return self._servers.server

    # The checks of /healthz and /livez say whether a restart of this process would
    # help. So they do not depend on the API server: otherwise every kubelet would
    # restart its manager during an outage, the leader as well as the standby.

    def healthz(self) -> Checks:
        """Return the checks of /healthz and /livez, in the order of the parts."""
        parts = (self._ownership, self._migration, self.controllers, self._caches)
        return _health_of(*parts)

    def _health_beside(self) -> Checks:
        """Return the checks of /healthz that need no answer of the main loop."""
        leases = _health_of(self._ownership, self._migration)
        return {**leases, "main-loop": self._control_loop.problem}

    def readyz(self) -> Checks:
        """Return the checks of /readyz, which say what the process waits for."""
        checks = {"apiserver": self._startup.problem}
        for part in (self._ownership, self._migration, self.controllers, self._caches):
            checks |= part.ready()
        return {**checks, **(self._webhooks.ready() if self._webhooks else {})}

    def _refresh(self) -> None:
        """Update the metrics that no event updates, before a scrape."""
        ends_at = self._connections.credential_expires_at()
        left = (ends_at - self._clock.now()).total_seconds() if ends_at else None
        self._metrics.client.plugin_ttl(left)
        self.controllers.report()
        self._caches.report()
        self._metrics.refresh()

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set, then finish the syncs that are in progress.

        Raises StartError if the API server cannot be used in time, ServingError if
        the port or a certificate cannot be used, LeadershipLost if this process lost
        its lease, each alone or in a group, and any exception of a defect.
        """
        self._startup.select()
        for warning in self._config.warnings:
            self._logger.warning(warning)
        async with asyncio.TaskGroup() as tasks:
            try:
                await self._servers.run(Lifetime(tasks, stop))
                if self._webhooks is not None:
                    await self._webhooks.run(Lifetime(tasks, stop))
                if await done_before(stop, self._prepare()):
                    await self._run_groups(stop)
            finally:
                await self._clients.close()
                if self._webhooks is not None:
                    await self._webhooks.stop()
                await self._servers.stop()

    async def _prepare(self) -> None:
        for each in await self._startup.prepare():
            member = self.controllers.add(
                each.controller,
                each.informers,
                is_owned=each.descriptor.name not in self._migrated,
            )
            if each.is_available:
                self._caches.add(member.name, each.informers)
                member.available.set()
            else:
                self._awaited.add(each)

    async def _run_groups(self, stop: asyncio.Event) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                await self._run_in(Lifetime(tasks, stop))
        finally:
            # After a failure, too. All tasks have ended, so no sync can write any more.
            await self._migration.release()
            await self._ownership.release()

    async def _run_in(self, life: Lifetime) -> None:
        await self._events.run(life)
        await self._preview.run(life)
        # Ownership runs before the caches, so that it gets an open file for its
        # connection.
        await self._ownership.run(life)
        await self._caches.run(life)
        await self._awaited.run(life)
        if await done_before(life.stop, self._wait_to_work(life)):
            await self._work(life)
        await self._migration.stop()
        await self._ownership.stop()
        await self._awaited.stop()
        await self._caches.stop()
        await self._preview.stop()
        await self._events.stop()

    async def _wait_to_work(self, life: Lifetime) -> None:
        """Wait for the caches, then for the lease.

        A process whose caches are not synced must not lead.
        """
        await self._caches.wait()
        await self._ownership.wait(life)
        if self._build.is_upstreams:
            warn_of_left_out_controllers(
                self._ownership.previous_holder,
                self._build,
                self._config,
                self._connections.root_ca,
                self._logger,
            )

    async def _work(self, life: Lifetime) -> None:
        """Run the controllers until told to stop, and write their last events."""
        await self.controllers.run(life)
        await self._stuck.run(life)
        self.started.set()
        await done_before(life.stop, self._migration.run(life))
        await life.stop.wait()
        await self._stuck.stop()
        await self.controllers.stop()
        await self._events.flush()


def _health_of(*parts: Runnable) -> Checks:
    return {name: check for part in parts for name, check in part.health().items()}


def _most_watches(open_files: int) -> int:
    """Return how many watches may be open, so that files are left for requests.

    The HTTPS server may use a quarter of all files. 0 means no limit.
    """
    if not open_files:
        return 0
    return max(_LEAST_WATCHES, open_files * 3 // 4 - _FILES_FOR_REQUESTS)
