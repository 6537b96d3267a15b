"""The probes ``/livez``, ``/readyz`` and ``/healthz`` of the API server."""

from collections.abc import Mapping, Sequence
from typing import Final

from controller_manager.client.rest.transport import Response
from controller_manager.devcluster.apiserver.http.responses import (
    TEXT_HEADERS,
    no_such_path,
)
from controller_manager.serving.health import HealthCheck, probe

_HEADERS: Final = {**TEXT_HEADERS, "x-content-type-options": "nosniff"}


def _passes() -> None:
    """Find no problem: all parts run in one process, and this process answers."""


_HOOKS: Final = """
    start-apiserver-admission-initializer generic-apiserver-start-informers
    priority-and-fairness-config-consumer priority-and-fairness-filter
    storage-object-count-tracker-hook start-apiextensions-informers
    start-apiextensions-controllers crd-informer-synced
    start-system-namespaces-controller peer-endpoint-reconciler-controller
    start-cluster-authentication-info-controller
    start-kube-apiserver-identity-lease-controller
    start-kube-apiserver-identity-lease-garbage-collector storage-readiness
    start-legacy-token-tracking-controller start-service-ip-repair-controllers
    rbac/bootstrap-roles scheduling/bootstrap-system-priority-classes
    priority-and-fairness-config-producer bootstrap-controller
    start-kubernetes-service-cidr-controller aggregator-reload-proxy-client-cert
    start-kube-aggregator-informers apiservice-status-local-available-controller
    apiservice-status-remote-available-controller apiservice-registration-controller
    apiservice-discovery-controller kube-apiserver-autoregistration
    autoregister-completion apiservice-openapi-controller
    apiservice-openapiv3-controller
"""
"""The steps of a real API server's start, in their order.

Here the server takes all of them before it listens, so each has succeeded.
"""

_STARTED: Final = tuple(
    each if each == "autoregister-completion" else f"poststarthook/{each}"
    for each in _HOOKS.split()
)
_ALIVE: Final = ("ping", "log", "loopback-serving-certificate", "etcd", *_STARTED)
_READY: Final = (
    *("ping", "log", "etcd", "etcd-readiness", "informer-sync"),
    *(*_STARTED, "shutdown"),
)
_CHECKS: Final[Mapping[str, Mapping[str, HealthCheck]]] = {
    "healthz": dict.fromkeys(_ALIVE, _passes),
    "livez": dict.fromkeys(_ALIVE, _passes),
    "readyz": dict.fromkeys(_READY, _passes),
}
"""The checks of a real API server of the same version, in the same order."""

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
