"""The permissions that the manager itself needs, derived from its controllers.

The manager reads for all of them: the caches are its own. With
``--use-service-account-credentials`` each controller writes as its own service
account, whose permissions are in its descriptor. The roles in ``config/`` are compared
with what is derived here.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from controller_manager.api.authentication.v1 import TOKEN_REVIEWS
from controller_manager.api.authorization.v1 import SUBJECT_ACCESS_REVIEWS
from controller_manager.api.coordination.v1 import LEASES
from controller_manager.api.coordination.v1beta1 import LEASE_CANDIDATES
from controller_manager.api.core.v1 import CONFIG_MAPS, EVENTS, SERVICE_ACCOUNTS
from controller_manager.client.service_accounts import NAMESPACE as OF_ACCOUNTS
from controller_manager.options.config import LeaderElectionConfig
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.permissions import (
    Permission,
    allow,
    allow_everywhere,
    within,
)

_READ: Final = ("list", "watch")
_AUTHORITIES: Final = "extension-apiserver-authentication"

REVIEW_PERMISSIONS: Final = (
    allow(TOKEN_REVIEWS, "create"),
    allow(SUBJECT_ACCESS_REVIEWS, "create"),
    allow(CONFIG_MAPS, "get", names=(_AUTHORITIES,), namespace="kube-system"),
)
"""To authenticate and authorize those who send requests to ``/metrics`` and so on.

Every API server has roles with these: ``system:auth-delegator``, and
``extension-apiserver-authentication-reader`` in ``kube-system``.
"""


def manager_permissions(
    descriptors: Iterable[Descriptor],
    election: LeaderElectionConfig,
    *,
    is_coordinated: bool = False,
) -> tuple[Permission, ...]:
    """Return the permissions that the manager itself needs to run these controllers.

    It runs with ``--use-service-account-credentials``, and holds the lease that
    `election` names. In a coordinated election it also makes a lease candidate. The
    permissions to serve its endpoints are `REVIEW_PERMISSIONS`.
    """
    selected = tuple(descriptors)
    return (
        *_reads(selected),
        *_writes_of_the_manager(selected),
        *_tokens(selected),
        *_lease(election),
        *(_candidate(election) if is_coordinated else ()),
    )


def _reads(descriptors: tuple[Descriptor, ...]) -> Iterator[Permission]:
    """Yield list and watch of what the controllers cache."""
    if any(_reads_everything(each) for each in descriptors):
        yield allow_everywhere(*_READ)
        return
    cached = {resource for each in descriptors for resource in each.requires}
    for resource in sorted(cached, key=lambda each: (each.group, each.plural)):
        yield allow(resource, *_READ)


def _reads_everything(descriptor: Descriptor) -> bool:
    """Tell whether a controller caches what discovery lists, as its role says."""
    return any(
        (each.group, each.resource) == ("*", "*") and "list" in each.verbs
        for each in descriptor.permissions
    )


def _writes_of_the_manager(descriptors: tuple[Descriptor, ...]) -> Iterator[Permission]:
    """Yield the permissions of controllers without a service account of their own."""
    for each in descriptors:
        if not each.account:
            yield from each.permissions


def _tokens(descriptors: tuple[Descriptor, ...]) -> Iterator[Permission]:
    """Yield the permissions to act as the controllers' service accounts.

    A role cannot name the accounts that may be created.
    """
    accounts = tuple(sorted({each.account for each in descriptors if each.account}))
    if accounts:
        token = allow(SERVICE_ACCOUNTS, "create", subresource="token", names=accounts)
        create = allow(SERVICE_ACCOUNTS, "create")
        yield from within(OF_ACCOUNTS, token, create)


def _lease(election: LeaderElectionConfig) -> tuple[Permission, ...]:
    """Return the permissions for the lease, and for the events about it."""
    return within(
        election.resource_namespace,
        allow(LEASES, "create"),
        allow(LEASES, "get", "update", "watch", names=(election.resource_name,)),
        allow(EVENTS, "create", "patch", "update"),
    )


def _candidate(election: LeaderElectionConfig) -> tuple[Permission, ...]:
    """Return the permissions for the lease candidate, named after the process."""
    return within(
        election.resource_namespace,
        allow(LEASE_CANDIDATES, "create", "get", "update"),
    )
