"""The subresource ``proxy``: discovery shows it, but the server does not serve it."""

from typing import Final

from controller_manager.devcluster.server.rest.kind import Subresource

_VERBS: Final = ("create", "delete", "get", "patch", "update")


def proxy_of(options: str) -> Subresource:
    """Return the subresource ``proxy`` with options of that kind."""
    return Subresource("proxy", options, _VERBS, takes_path=True)
