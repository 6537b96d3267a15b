"""All checks of an examination, in the order of the report."""

from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Final

from controller_manager.clock import Clock
from controller_manager.options.config import Config

from .accounts import check_accounts
from .controllers import check_controllers, check_flags
from .discovery import check_discovery
from .endpoints import check_endpoints
from .examination import Examination
from .finding import Finding
from .keys import check_keys
from .leases import check_lease, check_overlap
from .pods import check_own_pod
from .report import has_errors
from .resources import check_resources
from .rights import checks_of_rights
from .running import Check, Result, run_checks
from .server import check_server, check_version

_First = Callable[[Examination], Awaitable[list[Finding]]]

_BEFORE_RIGHTS: Final[dict[str, _First]] = {
    "version": check_version,
    "controllers": check_controllers,
    "resources": check_resources,
    "discovery": check_discovery,
}
_AFTER_RIGHTS: Final[dict[str, _First]] = {
    "endpoints": check_endpoints,
    "lease": check_lease,
    "other managers": check_overlap,
    "own pod": check_own_pod,
}


def local_checks(config: Config, clock: Clock) -> Iterator[Check]:
    """Yield the checks that need no API server."""
    yield Check("flags", partial(check_flags, config))
    yield Check("keys", partial(check_keys, config, clock.now()))


async def examine(examined: Examination, timeout: float) -> list[Result]:  # noqa: ASYNC109 - it bounds each check
    """Return the findings of all checks, each within `timeout` seconds.

    If the API server does not answer this identity, the checks that need it are left
    out: each would say the same.
    """
    local = local_checks(examined.config, examined.clock)
    server = Check("server", partial(check_server, examined))
    first = await run_checks([*local, server], timeout)
    if has_errors(first[-1:]):
        return first
    return [*first, *await run_checks(_checks_of_cluster(examined), timeout)]


def _checks_of_cluster(examined: Examination) -> Iterator[Check]:
    for name, check in _BEFORE_RIGHTS.items():
        yield Check(name, partial(check, examined))
    yield from checks_of_rights(examined)
    if examined.uses_accounts:
        yield Check("accounts", partial(check_accounts, examined))
    for name, check in _AFTER_RIGHTS.items():
        yield Check(name, partial(check, examined))
