"""Checks that the resources of all API groups can be discovered."""

from typing import Final

from controller_manager.client.discovery import discover

from .examination import Examination
from .finding import Finding, ok, warning

_MEND: Final = (
    "mend the server behind its APIService, or delete the APIService if nothing uses "
    "that API"
)


async def check_discovery(examined: Examination) -> list[Finding]:
    """Discover all resources, as garbage collector, quotas and namespaces do.

    While a group version fails, no namespace ends, and its objects have no owners or
    dependents. All other kinds are handled.
    """
    discovery = await discover(examined.client)
    return [
        warning(f"the resources of {name} cannot be discovered: {why}", _MEND)
        for name, why in sorted(discovery.failures.items())
    ] or [ok("the resources of all API groups can be discovered")]
