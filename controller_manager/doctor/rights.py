"""The rights of the manager itself, derived from its controllers and its own work."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from controller_manager.api.coordination.v1 import LEASES
from controller_manager.api.core.v1 import EVENTS, SERVICE_ACCOUNTS
from controller_manager.client.service_accounts import NAMESPACE
from controller_manager.doctor.examination import Examination
from controller_manager.doctor.finding import Finding, error, ok
from controller_manager.doctor.reviews import as_self, denied, described
from controller_manager.doctor.running import Check
from controller_manager.runtime.permissions import Permission, allow, within

_READ: Final = ("list", "watch")
_MEND: Final = "allow it in a role of this identity"


def needed_rights(examined: Examination) -> Mapping[str, Sequence[Permission]]:
    """Return what the manager's own identity must be allowed, by what it is for."""
    needed = {"caches": tuple(_reads(examined))}
    if examined.uses_accounts:
        needed["tokens"] = tuple(_tokens(examined))
        needed |= {
            each.name: each.permissions for each in examined.starting if each.runs_first
        }
    election = examined.config.generic.leader_election
    if election.leader_elect:
        needed["leases"] = within(election.resource_namespace, *_leases(examined))
        events = allow(EVENTS, "create", "patch", "update")
        needed["events"] = within(election.resource_namespace, events)
    return {purpose: each for purpose, each in needed.items() if each}


def checks_of_rights(examined: Examination) -> Iterator[Check]:
    """Yield a check for each thing that the manager's identity must be allowed for."""
    for purpose, permissions in needed_rights(examined).items():
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
        *(denied(ask, each.permissions) for each in examined.starting)
    )
    findings = [
        error(f"{each.name} may not {described(permissions)}", _MEND)
        for each, permissions in zip(examined.starting, lacking, strict=True)
        if permissions
    ]
    return findings or [ok("the manager's identity has the rights of all controllers")]


def _reads(examined: Examination) -> Iterator[Permission]:
    """Yield list and watch of what is cached: the manager itself reads for all."""
    wanted = {
        (each.group, each.resource)
        for descriptor in examined.starting
        for each in descriptor.permissions
        if set(_READ) <= set(each.verbs) and not each.namespace and not each.names
    }
    wanted |= {
        (resource.group, resource.plural)
        for descriptor in examined.starting
        for resource in descriptor.requires
    }
    if ("*", "*") in wanted:
        wanted = {("*", "*")}
    for group, resource in sorted(wanted):
        yield Permission(group, resource, _READ)


def _tokens(examined: Examination) -> Iterator[Permission]:
    accounts = sorted({each.account for each in examined.starting if each.account})
    if accounts:
        names = tuple(accounts)
        token = allow(SERVICE_ACCOUNTS, "create", subresource="token", names=names)
        yield from within(NAMESPACE, token)


def _leases(examined: Examination) -> Iterator[Permission]:
    generic = examined.config.generic
    names = [generic.leader_election.resource_name]
    if generic.leader_migration is not None:
        names.append(generic.leader_migration.leader_name)
    # No role can name what is created.
    yield allow(LEASES, "create")
    for name in names:
        yield allow(LEASES, "get", "update", "watch", names=(name,))
