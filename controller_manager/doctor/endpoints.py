"""Checks that the daemon can authenticate and authorize callers of its endpoints."""

from typing import Final

from controller_manager.client.client import Client
from controller_manager.manager.permissions import (
    AUTHENTICATE,
    AUTHORIZE,
    READ_AUTHORITIES,
)
from controller_manager.options.config import AuthenticationConfig
from controller_manager.runtime.permissions import Permission

from .examination import Examination
from .finding import Finding, error, ok, warning
from .reviews import as_self, denied, described

_READER: Final = (
    "kubectl create rolebinding -n kube-system NAME "
    "--role=extension-apiserver-authentication-reader --user=USER"
)
_DELEGATOR: Final = (
    "kubectl create clusterrolebinding NAME --clusterrole=system:auth-delegator "
    "--user=USER"
)


async def check_endpoints(examined: Examination) -> list[Finding]:
    """Check the permissions that ``/metrics`` and the other endpoints need."""
    config = examined.config
    if config.serving.port == 0:
        return [ok("nothing is served")]
    found = [
        *await _check(
            examined.authentication,
            "--authentication-kubeconfig",
            [AUTHENTICATE],
        ),
        *await _check_lookup(examined.authentication, config.authentication),
        *await _check(
            examined.authorization,
            "--authorization-kubeconfig",
            [AUTHORIZE],
        ),
    ]
    return found or [ok("callers are authenticated and authorized by the API server")]


async def _check(
    client: Client | None, flag: str, permissions: list[Permission]
) -> list[Finding]:
    if client is None:
        text = f"without {flag} only members of system:masters read /metrics"
        return [warning(text, f"give {flag}")]
    lacking = await denied(as_self(client), permissions)
    if not lacking:
        return []
    text = f"the identity of {flag} may not {described(lacking)}"
    return [error(text, _DELEGATOR)]


async def _check_lookup(
    client: Client | None, config: AuthenticationConfig
) -> list[Finding]:
    """Check the read without which the daemon ends, unless flags make it needless."""
    is_complete = config.client_ca_file and config.request_header.client_ca_file
    if client is None or config.skip_lookup or is_complete:
        return []
    lacking = await denied(as_self(client), [READ_AUTHORITIES])
    if not lacking:
        return []
    text = f"the identity of --authentication-kubeconfig may not {described(lacking)}"
    make = warning if config.tolerate_lookup_failure else error
    return [make(text, _READER)]
