"""Ownership, the right to write: acquired before controllers start, then released.

All electors of one process have one identity.
"""

import asyncio
import random
import socket
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from typing import Any, Final

from prometheus_client import CollectorRegistry

from controller_manager.client.builder import ClientBuilder
from controller_manager.client.events.recorder import EventBroadcaster
from controller_manager.client.leadership import fencing
from controller_manager.client.leadership.coordinated_election import (
    Candidacy,
    CoordinatedElector,
)
from controller_manager.client.leadership.leader_election import (
    LeaderElector,
    LeadershipLost,
    LeadershipYielded,
    new_identity,
)
from controller_manager.clock import Clock
from controller_manager.observability.logs import Logger
from controller_manager.observability.metrics.manager import ElectionCollectors
from controller_manager.options.config import Config, LeaderElectionConfig
from controller_manager.options.gates import COORDINATED_ELECTION

from .control_loop import ControlLoop
from .runnable import Checks, Lifetime, Runnable

_LAST_EVENT: Final = 1.0
"""Seconds to wait for the event that this process stopped leading."""


async def _cancelled(tasks: list[asyncio.Task[None]]) -> None:
    """Cancel tasks, and wait until they have ended."""
    for each in tasks:
        each.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@dataclass(slots=True)
class OwnershipGroup(Runnable):
    """Acquires and holds the lease; without an `elector` it owns all keys.

    The election runs beside the main loop: a controller that blocks the main loop must
    not cost the lease. The fence reads the time until which this process leads.
    `recorder` writes the events of the elector. In a coordinated election, `candidacy`
    makes this process a candidate.
    """

    elector: LeaderElector | None
    control_loop: ControlLoop
    recorder: EventBroadcaster | None = None
    candidacy: Candidacy | None = None
    ownership: fencing.Ownership = field(init=False)
    """Tells for which keys this process may write."""
    _helping: list[asyncio.Task[None]] = field(init=False, default_factory=list)
    _leading: list[asyncio.Task[None]] = field(init=False, default_factory=list)
    _is_released: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        """Make the fence of the lease."""
        elector = self.elector
        self.ownership = (
            fencing.LeaseOwnership(elector) if elector else fencing.PermanentOwnership()
        )

    @property
    def previous_holder(self) -> str:
        """The identity of the former leader, empty if there was none."""
        return self.elector.previous_holder if self.elector else ""

    async def run(self, life: Lifetime) -> None:
        """Watch the lease, and write the events about it; `wait` acquires it."""
        if self.elector is not None:
            self._helping.append(self._start(life, "lease-watch", self.elector.watch))
        if self.recorder is not None:
            self._helping.append(self._start(life, "lease-events", self.recorder.run))

    async def wait(self, life: Lifetime) -> None:
        """Acquire the lease; returns once this process may write.

        Only now does this process become a candidate, because the API server may elect
        it at once. From now on the lease is renewed; if it is lost, a task of `life`
        fails with LeadershipLost.
        """
        if self.candidacy is not None:
            standing = self._start(life, "lease-candidate", self.candidacy.run)
            self._leading.append(standing)
        if self.elector is not None:
            acquired = asyncio.Event()
            holding = partial(self._hold, self.elector, acquired)
            self._leading.append(self._start(life, "lease", holding))
            await acquired.wait()

    def _start(
        self, life: Lifetime, name: str, work: Callable[[], Coroutine[Any, Any, None]]
    ) -> asyncio.Task[None]:
        """Start a task that waits for work beside the main loop."""
        return life.tasks.create_task(self.control_loop.run(work), name=name)

    async def _hold(self, elector: LeaderElector, acquired: asyncio.Event) -> None:
        """Acquire the lease and renew it, beside the main loop.

        Both in one piece: the main loop may be busy when the lease is acquired.
        """
        await elector.acquire()
        self.control_loop.tell(acquired.set)
        try:
            await elector.renew()
        except LeadershipYielded:
            await self._write_last_event()
            raise
        except LeadershipLost:
            # If no other process holds the lease, the API server does not answer.
            if elector.holder != elector.identity:
                await self._write_last_event()
            raise

    async def _write_last_event(self) -> None:
        """Wait until the event "stopped leading" is written, for a second at most.

        Every other write is refused meanwhile.
        """
        if self.recorder is None:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_EVENT):
                await self.recorder.flush()

    async def stop(self) -> None:
        """Release the lease, even if it was acquired only a moment ago."""
        # A renewal that is in progress would arrive after the release. A candidate
        # would answer the API server, and be elected again.
        await _cancelled(self._leading)
        await self.release()
        await self.control_loop.run(self._write_last_event)
        await _cancelled(self._helping)

    async def release(self) -> None:
        """Release the lease, once; does nothing if it was lost before."""
        if self.elector is not None and not self._is_released:
            self._is_released = True
            await self.control_loop.run(self.elector.release)

    def health(self) -> Checks:
        """Return a check: whether a leader renews its lease or has stopped to lead."""
        if self.elector is None:
            return {}
        return {"leaderElection": self.elector.health_problem}

    def ready(self) -> Checks:
        """Return a check: whether this process is a candidate, if it needs to be."""
        if self.candidacy is None:
            return {}
        return {"leaseCandidate": self.candidacy.problem}


@dataclass(slots=True)
class MigrationGroup(Runnable):
    """Holds the lease of the migration, after the manager's own lease.

    Without controllers that run under it the lease is left to other managers. `start`
    lets the controllers of these names start.
    """

    names: frozenset[str]
    ownership: OwnershipGroup
    start: Callable[[frozenset[str]], None]
    logger: Logger

    async def run(self, life: Lifetime) -> None:
        """Acquire the lease, for as long as it takes, then start the controllers."""
        if not self.names:
            return
        await self.ownership.run(life)
        await self.ownership.wait(life)
        names = ", ".join(sorted(self.names))
        self.logger.info("Leader migration: starting controllers", controllers=names)
        self.start(self.names)

    async def stop(self) -> None:
        """Release the lease."""
        await self.ownership.stop()

    async def release(self) -> None:
        """Release the lease, once, after a failure."""
        await self.ownership.release()

    def health(self) -> Checks:
        """Return a check: whether a leader renews the lease of the migration."""
        checks = self.ownership.health() if self.names else {}
        return {f"leaderMigration-{name}": check for name, check in checks.items()}


@dataclass(slots=True)
class Elections:
    """Makes the groups that hold the lease of the manager, and of leader migration."""

    config: Config
    clients: ClientBuilder
    control_loop: ControlLoop
    make_recorder: Callable[[], EventBroadcaster]
    _: KW_ONLY
    clock: Clock
    rng: random.Random
    registry: CollectorRegistry
    logger: Logger
    count_defect: Callable[[str], None]
    _identity: str = field(init=False, default="")
    _metrics: ElectionCollectors | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        """Register the metrics if there is an election; the `clients` are its own."""
        is_preview = self.config.preview.enabled
        if self._settings.leader_elect and not is_preview:
            self._identity = new_identity(socket.gethostname(), self.rng)
            self._metrics = ElectionCollectors(self.registry)

    def main(self) -> OwnershipGroup:
        """Return the group that holds the manager's lease; without election, all."""
        if not self.config.features.is_enabled(COORDINATED_ELECTION):
            return self._group(LeaderElector, self._settings)
        return self._group(CoordinatedElector, self._settings, self._candidacy)

    def migration(self) -> OwnershipGroup:
        """Return the group that holds the lease of leader migration.

        This process takes it itself in a coordinated election, too: the API server
        elects no holder of a lease without candidates.
        """
        migration = self.config.generic.leader_migration
        name = migration.leader_name if migration else ""
        return self._group(LeaderElector, replace(self._settings, resource_name=name))

    @property
    def _settings(self) -> LeaderElectionConfig:
        return self.config.generic.leader_election

    def _group(
        self,
        make: type[LeaderElector],
        settings: LeaderElectionConfig,
        candidacy: Callable[[LeaderElector], Candidacy] | None = None,
    ) -> OwnershipGroup:
        if self._metrics is None:
            return OwnershipGroup(None, self.control_loop)
        recorder = self.make_recorder()
        elector = make(
            self.clients.lease(),
            settings,
            self._identity,
            clock=self.clock,
            rng=self.rng,
            recorder=recorder,
            metrics=self._metrics.lease(settings.resource_name),
            logger=self.logger,
            count_defect=self.count_defect,
            may_lead=self._may_lead,
        )
        standing = candidacy(elector) if candidacy else None
        return OwnershipGroup(elector, self.control_loop, recorder, standing)

    def _candidacy(self, elector: LeaderElector) -> Candidacy:
        """Return the candidacy of this process in a coordinated election."""
        return Candidacy(
            self.clients.election(),
            self._settings,
            elector.identity,
            emulated_version=self.config.emulated_version,
            knows_leader=lambda: elector.knows_leader,
            clock=self.clock,
            logger=self.logger,
            count_defect=self.count_defect,
            may_lead=self._may_lead,
        )

    def _may_lead(self) -> bool:
        return not self.control_loop.is_hung
