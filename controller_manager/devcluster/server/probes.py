"""The probes ``/livez``, ``/readyz`` and ``/healthz`` of the API server."""

from collections.abc import Mapping, Sequence
from typing import Final

from controller_manager.client.transport import Response
from controller_manager.devcluster.server.http.responses import (
    TEXT_HEADERS,
    no_such_path,
)
from controller_manager.serving.health import HealthCheck, probe

_HEADERS: Final = {**TEXT_HEADERS, "x-content-type-options": "nosniff"}


def _passes() -> None:
    """Find no problem: all parts run in one process, and this process answers."""


_ALIVE: Final[Mapping[str, HealthCheck]] = dict.fromkeys(
    ("ping", "log", "etcd"), _passes
)
_READY: Final = ("etcd-readiness", "informer-sync", "shutdown")
_CHECKS: Final[Mapping[str, Mapping[str, HealthCheck]]] = {
    "healthz": _ALIVE,
    "livez": _ALIVE,
    "readyz": {**_ALIVE, **dict.fromkeys(_READY, _passes)},
}
"""The checks of a real API server, except those of its start."""

PROBES: Final = frozenset(_CHECKS)
"""The names of the probes, which are the first segments of their paths."""

PROBE_PATHS: Final = tuple(
    path
    for name, checks in _CHECKS.items()
    for path in (f"/{name}", *(f"/{name}/{check}" for check in checks))
)
"""The paths of all probes and of their checks."""


def probe_answer(path: str, query: Sequence[tuple[str, str]]) -> Response:
    """Return the answer to a probe or to one of its checks, 404 for unknown ones."""
    name, slash, check = path.removeprefix("/").partition("/")
    checks = _CHECKS[name]
    if slash:
        return _ok("ok") if check in checks else no_such_path()
    excluded = [value for key, value in query if key == "exclude"]
    verbose = any(key == "verbose" for key, _ in query)
    return _ok(probe(name, checks, verbose=verbose, exclude=excluded).text)


def _ok(text: str) -> Response:
    return Response(200, _HEADERS, text.encode())
