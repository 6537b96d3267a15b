"""Discovery: groups, versions, resources, the server's version, and its probes."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import msgspec

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Request, Response
from controller_manager.devcluster.scheme.models import Resource
from controller_manager.serving.health import HealthCheck, probe
from controller_manager.version import KUBERNETES_VERSION

from . import responses
from .kind import Catalogue, Kind
from .negotiation import accepted_as, header

# The probes ``/livez``, ``/readyz`` and ``/healthz`` of the API server.

_HEADERS: Final = {**responses.TEXT_HEADERS, "x-content-type-options": "nosniff"}


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
        return _ok("ok") if check in checks else responses.no_such_path()
    excluded = [value for key, value in query if key == "exclude"]
    verbose = any(key == "verbose" for key, _ in query)
    return _ok(probe(name, checks, verbose=verbose, exclude=excluded).text)


def _ok(text: str) -> Response:
    return Response(200, _HEADERS, text.encode())


# Discovery: groups, versions, resources, and the version of the server.

_MAJOR, _MINOR, _PATCH = KUBERNETES_VERSION.removeprefix("v").split(".")

_ALL: Final = ("apidiscovery.k8s.io", "v2", "APIGroupDiscoveryList")
"""Group, version and kind of all groups with all their resources in one document."""

VERSION: Final[JSON] = {
    "major": _MAJOR,
    "minor": _MINOR,
    "emulationMajor": _MAJOR,
    "emulationMinor": _MINOR,
    "minCompatibilityMajor": _MAJOR,
    "minCompatibilityMinor": str(int(_MINOR) - 1),
    "gitVersion": KUBERNETES_VERSION,
    "gitCommit": "",
    "gitTreeState": "",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "python",
    "platform": "linux/amd64",
}


def answer(
    catalogue: Catalogue, address: str, parts: list[str], request: Request
) -> Response:
    """Answer a request for discovery or the version; 404 for an unknown path.

    `address` is that of the server, `parts` are the segments of the path.
    """
    match parts:
        case ["api"] | ["apis"] if _wants_aggregated(request):
            return _aggregated_response(catalogue, request, core=parts == ["api"])
        case []:
            return responses.json_response(200, paths(catalogue))
        case ["version"]:
            return responses.json_response(200, VERSION)
        case ["api"]:
            return responses.json_response(200, _api_versions(address))
        case ["apis"]:
            return responses.json_response(200, _api_groups(catalogue))
        case ["apis", group]:
            return responses.json_or_404(_api_group(catalogue, group))
        case ["api", version]:
            return responses.json_or_404(_api_resources(catalogue, "", version))
        case ["apis", group, version]:
            return responses.json_or_404(_api_resources(catalogue, group, version))
    return responses.no_such_path()


def _wants_aggregated(request: Request) -> str:
    """Return the media type in which a request asks for all groups in one document.

    The text is empty for a request that asks for something else.
    """
    return accepted_as(header(request.headers, "accept"), *_ALL)


def _aggregated_response(
    catalogue: Catalogue, request: Request, *, core: bool
) -> Response:
    """Return the answer with all groups, or the core group, in one document.

    Its ETag is that of the JSON in every encoding, as upstream.
    """
    media_type = _wants_aggregated(request)
    headers = {
        "content-type": "{};g={};v={};as={}".format(media_type, *_ALL),
        "vary": "Accept",
        "cache-control": "public",
    }
    body = msgspec.json.encode(_aggregated(catalogue, core=core))
    answer = responses.unless_known(Response(200, headers, body), request)
    if answer.status != 200:
        return answer
    return replace(answer, body=responses.encoded(body, media_type))


def paths(catalogue: Catalogue) -> JSON:
    """Return the answer to ``/``: the paths that the server has."""
    found = {"/api", "/apis", "/metrics", "/openapi/v2", "/openapi/v3", "/version"}
    found.update(PROBE_PATHS)
    for group, version in catalogue.group_versions():
        found.add(f"/apis/{group}/{version}" if group else f"/api/{version}")
        if group:
            found.add(f"/apis/{group}")
    return {"paths": sorted(found)}


def _api_versions(address: str) -> JSON:
    """Return the answer to ``/api``."""
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [
            {"clientCIDR": "0.0.0.0/0", "serverAddress": address}
        ],
    }


def _versions_by_group(catalogue: Catalogue) -> dict[str, list[str]]:
    """Return the versions of each group except the core group, the preferred first.

    The groups of custom resources come last, by name: all have the same priority.
    """
    versions: dict[str, list[str]] = {}
    custom = set()
    for name, version in catalogue.group_versions():
        if name:
            versions.setdefault(name, []).append(version)
        if any(each.is_custom for each in catalogue.kinds(name, version) or ()):
            custom.add(name)
    order = sorted(
        versions, key=lambda name: (name in custom, name if name in custom else "")
    )
    return {name: sorted(versions[name], key=_priority) for name in order}


def _priority(version: str) -> tuple[int, int, int, str]:
    """Order versions as Kubernetes does: v2, v1, v2beta1, v1beta1, v1alpha1, others."""
    match = re.fullmatch(r"v(\d+)(?:(alpha|beta)(\d+))?", version)
    if match is None:
        return 3, 0, 0, version
    major, stage, minor = match.groups()
    ripeness = {None: 0, "beta": 1, "alpha": 2}[stage]
    return ripeness, -int(major), -int(minor or 0), version


def _api_groups(catalogue: Catalogue) -> JSON:
    """Return the answer to ``/apis``."""
    groups = [
        _group(name, versions)
        for name, versions in _versions_by_group(catalogue).items()
    ]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def _api_group(catalogue: Catalogue, name: str) -> JSON | None:
    """Return the answer to ``/apis/GROUP``."""
    versions = _versions_by_group(catalogue).get(name)
    if versions is None:
        return None
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, versions)}


def _group(name: str, versions: list[str]) -> JSON:
    entries = [
        {"groupVersion": f"{name}/{version}", "version": version}
        for version in versions
    ]
    return {"name": name, "versions": entries, "preferredVersion": entries[0]}


def _aggregated(catalogue: Catalogue, *, core: bool) -> JSON:
    """Return all groups, or the core group, with all their resources."""
    groups = {"": ["v1"]} if core else _versions_by_group(catalogue)
    return {
        "kind": _ALL[2],
        "apiVersion": "/".join(_ALL[:2]),
        "metadata": {},
        "items": [
            {
                "metadata": {"name": name} if name else {},
                "versions": [
                    {
                        "version": version,
                        "resources": [
                            _discovered(kind)
                            for kind in sorted(
                                catalogue.kinds(name, version) or (),
                                key=lambda each: each.plural,
                            )
                        ],
                        "freshness": "Current",
                    }
                    for version in versions
                ],
            }
            for name, versions in groups.items()
        ],
    }


def _discovered(kind: Kind) -> JSON:
    entry: JSON = {
        "resource": kind.plural,
        "responseKind": _response_kind(kind, kind.kind),
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": kind.verbs,
    }
    if kind.short_names:
        entry["shortNames"] = kind.short_names
    if kind.categories:
        entry["categories"] = kind.categories
    if kind.subresources:
        entry["subresources"] = [
            {
                "subresource": each.name,
                "responseKind": _response_kind(
                    kind, each.kind, each.group, each.version
                ),
                "verbs": each.verbs,
            }
            for each in kind.subresources
        ]
    return entry


def _response_kind(kind: Kind, name: str, group: str = "", version: str = "") -> JSON:
    """Return the kind of an answer about a resource, or about its subresource.

    Only custom resources have their own group and version in it; the others leave both
    empty, unless the kind is one of another group (ConvertGroupVersionIntoToDiscovery).
    """
    if kind.is_custom and not version:
        group, version = kind.group, kind.version
    return {"group": group, "version": version, "kind": name}


def _api_resources(catalogue: Catalogue, group: str, version: str) -> JSON | None:
    """Return the answer to ``/apis/GROUP/VERSION``."""
    kinds = catalogue.kinds(group, version)
    if kinds is None:
        return None
    resources = sorted(
        (entry for kind in kinds for entry in _entries(kind)),
        key=lambda entry: entry.name,
    )
    # Only the list of the core group has no apiVersion.
    answer: JSON = {"kind": "APIResourceList"}
    if group:
        answer["apiVersion"] = "v1"
    answer["groupVersion"] = f"{group}/{version}" if group else version
    answer["resources"] = resources
    return answer


def _entries(kind: Kind) -> list[Resource]:
    entry = Resource(
        name=kind.plural,
        singular_name=kind.singular,
        namespaced=kind.namespaced,
        kind=kind.kind,
        verbs=kind.verbs,
        short_names=kind.short_names,
        categories=kind.categories,
        storage_version_hash=kind.storage_version_hash,
    )
    below = (
        Resource(
            name=f"{kind.plural}/{each.name}",
            singular_name="",
            namespaced=kind.namespaced,
            group=each.group,
            version=each.version,
            kind=each.kind,
            verbs=each.verbs,
        )
        for each in kind.subresources
    )
    return [entry, *below]
