"""Requests that connect to a pod, a service or a node: exec, attach, proxy.

As upstream, admission sees them first.
"""

from collections.abc import Iterable
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.server.rest.kind import Subresource

from .request_info import Target

_FLAGS: Final = ("stderr", "stdin", "stdout", "tty")
_LISTS: Final = ("command", "ports")
_TEXTS: Final = ("container", "path")
_FALSE: Final = ("", "0", "false", "False")


def connection_of(target: Target) -> Subresource | None:
    """Return the subresource to which a request connects, `None` for all others."""
    found = target.kind.subresource(target.subresource) if target.subresource else None
    if found is None or not found.kind.endswith("Options"):
        return None
    return found


def options_of(subresource: Subresource, query: Iterable[tuple[str, str]]) -> JSON:
    """Return the options of a connection, for example PodExecOptions."""
    options: JSON = {"kind": subresource.kind, "apiVersion": "v1"}
    for name, value in query:
        if name in _FLAGS:
            options[name] = value not in _FALSE
        elif name in _LISTS:
            options.setdefault(name, []).append(value)
        elif name in _TEXTS:
            options[name] = value
    return options
