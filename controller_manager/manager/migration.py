"""Leader migration: controllers that move between managers, under a second lease.

Upstream: ``--enable-leader-migration``, cmd/kube-controller-manager/app. A manager that
holds its own lease tries to get the lease of the migration as well, and runs under it
the controllers that the configuration gives to it.
"""

from collections.abc import Callable
from dataclasses import dataclass

from controller_manager.observability.logs import Logger
from controller_manager.options.config import GenericConfig
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.registry import Registry
from controller_manager.version import COMPONENT

from .ownership import OwnershipGroup
from .runnable import Checks, Lifetime, Runnable


def component_of(descriptor: Descriptor, config: GenericConfig) -> str | None:
    """Return the component that runs a controller under the migration's lease.

    `None` if the controller takes no part. The controller that runs first never takes
    part: the others need its tokens.
    """
    migration = config.leader_migration
    if migration is None or descriptor.runs_first:
        return None
    return migration.component_of(descriptor.name, *descriptor.aliases)


def is_given_away(descriptor: Descriptor, config: GenericConfig) -> bool:
    """Tell whether the configuration gives a controller to another manager."""
    return component_of(descriptor, config) not in (None, COMPONENT)


def migrated_controllers(build: Registry, config: GenericConfig) -> frozenset[str]:
    """Return the selected controllers that run here under the migration's lease."""
    if config.leader_migration is None:
        return frozenset()
    return frozenset(
        each.name
        for each in build.select(config.controllers)
        if component_of(each, config) == COMPONENT
    )


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
