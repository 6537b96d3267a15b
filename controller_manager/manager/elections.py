"""Makes the electors of a manager's leases; all have one identity."""

import random
import socket
from collections.abc import Callable
from dataclasses import replace

from prometheus_client import CollectorRegistry

from controller_manager.client.builder import ClientBuilder
from controller_manager.client.coordinated_election import CoordinatedElector
from controller_manager.client.events import EventBroadcaster
from controller_manager.client.leader_election import LeaderElector, new_identity
from controller_manager.client.lease_candidate import Candidacy
from controller_manager.clock import Clock
from controller_manager.observability.logs import Logger
from controller_manager.observability.metrics.elections import ElectionCollectors
from controller_manager.options.config import Config, LeaderElectionConfig
from controller_manager.options.gates import COORDINATED_ELECTION

from .beside import Beside
from .ownership import OwnershipGroup


class Elections:
    """Makes the groups that hold the lease of the manager, and of leader migration."""

    def __init__(  # noqa: PLR0913 - all that an elector takes
        self,
        config: Config,
        clients: ClientBuilder,
        beside: Beside,
        make_recorder: Callable[[], EventBroadcaster],
        *,
        clock: Clock,
        rng: random.Random,
        registry: CollectorRegistry,
        logger: Logger,
        count_defect: Callable[[str], None],
    ) -> None:
        """Take what electors need; registers the metrics if there is an election.

        The elections run `beside` the main loop, and so do the `clients`.
        """
        self._config = config
        self._clients = clients
        self._beside = beside
        self._make_recorder = make_recorder
        self._clock = clock
        self._rng = rng
        self._logger = logger
        self._count_defect = count_defect
        is_preview = config.preview.enabled
        self._elects = config.generic.leader_election.leader_elect and not is_preview
        if self._elects:
            self._identity = new_identity(socket.gethostname(), rng)
            self._metrics = ElectionCollectors(registry)

    def main(self) -> OwnershipGroup:
        """Return the group that holds the manager's lease; without election, all."""
        if not self._config.features.is_enabled(COORDINATED_ELECTION):
            return self._group(LeaderElector, self._settings)
        return self._group(CoordinatedElector, self._settings, self._candidacy)

    def migration(self) -> OwnershipGroup:
        """Return the group that holds the lease of leader migration.

        This process takes it itself in a coordinated election, too: the API server
        elects no holder of a lease without candidates.
        """
        migration = self._config.generic.leader_migration
        name = migration.leader_name if migration else ""
        return self._group(LeaderElector, replace(self._settings, resource_name=name))

    @property
    def _settings(self) -> LeaderElectionConfig:
        return self._config.generic.leader_election

    def _group(
        self,
        make: type[LeaderElector],
        settings: LeaderElectionConfig,
        candidacy: Callable[[LeaderElector], Candidacy] | None = None,
    ) -> OwnershipGroup:
        if not self._elects:
            return OwnershipGroup(None, self._beside)
        recorder = self._make_recorder()
        elector = make(
            self._clients.lease(),
            settings,
            self._identity,
            clock=self._clock,
            rng=self._rng,
            recorder=recorder,
            metrics=self._metrics.lease(settings.resource_name),
            logger=self._logger,
            count_defect=self._count_defect,
            may_lead=self._may_lead,
        )
        standing = candidacy(elector) if candidacy else None
        return OwnershipGroup(elector, self._beside, recorder, standing)

    def _candidacy(self, elector: LeaderElector) -> Candidacy:
        """Return the candidacy of this process in a coordinated election."""
        return Candidacy(
            self._clients.election(),
            self._settings,
            elector.identity,
            emulated_version=self._config.emulated_version,
            knows_leader=lambda: elector.knows_leader,
            clock=self._clock,
            logger=self._logger,
            count_defect=self._count_defect,
            may_lead=self._may_lead,
        )

    def _may_lead(self) -> bool:
        return not self._beside.is_hung
