"""Checks that the manager has its rights, which ``manager.permissions`` derives."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from controller_manager.manager.permissions import (
    CACHES,
    CANDIDATES,
    EVENTS_OF_LEADERS,
    LEASES_OF_LEADERS,
    NEW_ACCOUNTS,
    permissions_by_purpose,
)
from controller_manager.runtime.permissions import Permission

from .examination import Examination
from .finding import Check, Finding, error, ok
from .reviews import as_self, denied, described

_MEND: Final = "allow it in a role of this identity"
_WITHOUT_ACCOUNTS: Final = (CACHES, LEASES_OF_LEADERS, EVENTS_OF_LEADERS, CANDIDATES)


def manager_rights(examined: Examination) -> Mapping[str, Sequence[Permission]]:
    """Return the permissions that the manager's own identity needs, by purpose.

    Without ``--use-service-account-credentials`` it needs no tokens.
    """
    generic = examined.config.generic
    migration = generic.leader_migration
    needed = permissions_by_purpose(
        examined.starting,
        generic.leader_election,
        features=examined.config.features,
        migration_lease=migration.leader_name if migration else "",
    )
    if examined.uses_accounts:
        return needed
    return {name: each for name, each in needed.items() if name in _WITHOUT_ACCOUNTS}


def checks_of_rights(examined: Examination) -> Iterator[Check]:
    """Yield a check for each purpose for which the manager's identity needs rights.

    The right to create accounts is left to the check of the accounts, which knows
    whether one is missing.
    """
    for purpose, permissions in manager_rights(examined).items():
        if purpose != NEW_ACCOUNTS:
            run = partial(_check, examined, permissions)
            yield Check(f"rights: {purpose}", run)
    if not examined.uses_accounts:
        yield Check("rights: controllers", partial(_check_controllers, examined))


async def _check(
    examined: Examination, permissions: Sequence[Permission]
) -> list[Finding]:
    lacking = await denied(as_self(examined.client), permissions)
    if lacking:
        return [error(f"may not {described(lacking)}", _MEND)]
    return [ok("all rights are there")]


async def _check_controllers(examined: Examination) -> list[Finding]:
    """Check the rights of all controllers, which act as the manager itself."""
    ask = as_self(examined.client)
    lacking = await asyncio.gather(
        *(
            denied(ask, each.permissions_with(examined.config.features))
            for each in examined.starting
        )
    )
    findings = [
        error(f"{each.name} may not {described(permissions)}", _MEND)
        for each, permissions in zip(examined.starting, lacking, strict=True)
        if permissions
    ]
    return findings or [ok("the manager's identity has the rights of all controllers")]
