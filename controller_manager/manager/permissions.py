"""The permissions that the manager itself needs, derived from its controllers.

The manager reads for all of them: the caches are its own. With
``--use-service-account-credentials`` each controller writes as its own service account,
whose permissions are in its descriptor. A test compares the roles in ``config/`` with
these permissions, and the doctor asks the API server whether the manager has them.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from controller_manager.api.authentication.v1 import TOKEN_REVIEWS
from controller_manager.api.authorization.v1 import SUBJECT_ACCESS_REVIEWS
from controller_manager.api.coordination.v1 import LEASES
from controller_manager.api.coordination.v1beta1 import LEASE_CANDIDATES
from controller_manager.api.core.v1 import CONFIG_MAPS, EVENTS, SERVICE_ACCOUNTS
from controller_manager.client.identity.service_accounts import NAMESPACE as OF_ACCOUNTS
from controller_manager.options.config import LeaderElectionConfig
from controller_manager.options.gates import COORDINATED_ELECTION, FeatureGates
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.permissions import (
    Permission,
    allow,
    allow_everywhere,
    within,
)

_READ: Final = ("list", "watch")
_AUTHORITIES: Final = "extension-apiserver-authentication"

AUTHENTICATE: Final = allow(TOKEN_REVIEWS, "create")
AUTHORIZE: Final = allow(SUBJECT_ACCESS_REVIEWS, "create")
READ_AUTHORITIES: Final = allow(
    CONFIG_MAPS, "get", names=(_AUTHORITIES,), namespace="kube-system"
)
REVIEW_PERMISSIONS: Final = (AUTHENTICATE, AUTHORIZE, READ_AUTHORITIES)
"""To authenticate and authorize those who send requests to ``/metrics`` and so on.

Every API server has roles with these: ``system:auth-delegator``, and
``extension-apiserver-authentication-reader`` in ``kube-system``.
"""

DEFAULTS: Final = FeatureGates()

CACHES: Final = "caches"
TOKENS: Final = "tokens"
NEW_ACCOUNTS: Final = "new accounts"
LEASES_OF_LEADERS: Final = "leases"
EVENTS_OF_LEADERS: Final = "events"
CANDIDATES: Final = "lease candidates"


def permissions_by_purpose(
    descriptors: Iterable[Descriptor],
    election: LeaderElectionConfig,
    *,
    features: FeatureGates = DEFAULTS,
    migration_lease: str = "",
) -> Mapping[str, tuple[Permission, ...]]:
    """Return the permissions that the manager itself needs, by their purpose.

    It runs with ``--use-service-account-credentials``. It holds the lease that
    `election` names, and the lease `migration_lease` of leader migration if that is
    not empty. In a coordinated election it also makes a lease candidate. The
    permissions of a controller without a service account of its own stand under the
    name of the controller. The permissions to serve its endpoints are
    `REVIEW_PERMISSIONS`. `features` are the feature gates of the manager.
    """
    selected = tuple(descriptors)
    where = election.resource_namespace
    needed = {
        CACHES: tuple(_reads(selected, features)),
        TOKENS: _tokens(selected),
        NEW_ACCOUNTS: _new_accounts(selected),
        **{
            each.name: each.permissions_with(features)
            for each in selected
            if not each.account
        },
    }
    if election.leader_elect:
        leases = [election.resource_name, *filter(None, [migration_lease])]
        needed[LEASES_OF_LEADERS] = within(where, *_leases(leases))
        events = allow(EVENTS, "create", "patch", "update")
        needed[EVENTS_OF_LEADERS] = within(where, events)
        if features.is_enabled(COORDINATED_ELECTION):
            candidate = allow(LEASE_CANDIDATES, "create", "get", "update")
            needed[CANDIDATES] = within(where, candidate)
    return {purpose: each for purpose, each in needed.items() if each}


def _reads(
    descriptors: tuple[Descriptor, ...], features: FeatureGates
) -> Iterator[Permission]:
    """Yield list and watch of the resources that the controllers cache."""
    if any(_reads_everything(each) for each in descriptors):
        yield allow_everywhere(*_READ)
        return
    cached = {
        resource for each in descriptors for resource in each.requires_with(features)
    }
    for resource in sorted(cached, key=lambda each: (each.group, each.plural)):
        yield allow(resource, *_READ)


def _reads_everything(descriptor: Descriptor) -> bool:
    """Tell whether a controller caches what discovery lists, as its role says."""
    return any(
        (each.group, each.resource) == ("*", "*") and "list" in each.verbs
        for each in descriptor.permissions
    )


def _tokens(descriptors: tuple[Descriptor, ...]) -> tuple[Permission, ...]:
    """Return the permission to act as the controllers' service accounts."""
    accounts = tuple(sorted({each.account for each in descriptors if each.account}))
    if not accounts:
        return ()
    token = allow(SERVICE_ACCOUNTS, "create", subresource="token", names=accounts)
    return within(OF_ACCOUNTS, token)


def _new_accounts(descriptors: tuple[Descriptor, ...]) -> tuple[Permission, ...]:
    """Return the permission to create accounts that are not there yet.

    A role cannot name the accounts that may be created.
    """
    if not any(each.account for each in descriptors):
        return ()
    return within(OF_ACCOUNTS, allow(SERVICE_ACCOUNTS, "create"))


def _leases(names: Iterable[str]) -> Iterator[Permission]:
    """Yield the permissions for leases; a role cannot name what may be created."""
    yield allow(LEASES, "create")
    for name in names:
        yield allow(LEASES, "get", "update", "watch", names=(name,))
