"""Discovery: the resources that an API server serves.

Two requests read all of them (aggregated discovery, v2). If the server does not
support that, each group version is read by a request of its own. Upstream:
client-go's discovery and restmapper.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Final, TypeVar

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from controller_manager.api.meta import APIStruct, PartialObject
from controller_manager.api.resource import Resource
from controller_manager.client.client import Client
from controller_manager.client.errors import (
    APIError,
    ProtocolError,
    TransportError,
    error_from_response,
)
from controller_manager.client.transport import Response

StructT = TypeVar("StructT", bound=msgspec.Struct)

_AGGREGATED: Final = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json"
)


class _APIResource(APIStruct, frozen=True):
    name: str = ""
    namespaced: bool = False
    kind: str = ""
    verbs: tuple[str, ...] = ()


class _APIResourceList(APIStruct, frozen=True):
    resources: tuple[_APIResource, ...] | None = None


class _GroupVersion(APIStruct, frozen=True):
    version: str = ""


class _APIGroup(APIStruct, frozen=True):
    name: str = ""
    versions: tuple[_GroupVersion, ...] = ()
    preferred_version: _GroupVersion = _GroupVersion()


class _APIGroupList(APIStruct, frozen=True):
    groups: tuple[_APIGroup, ...] | None = None


class _APIVersions(APIStruct, frozen=True):
    versions: tuple[str, ...] = ()


class _ResponseKind(APIStruct, frozen=True):
    kind: str = ""


class _SubresourceDiscovery(APIStruct, frozen=True):
    subresource: str = ""


class _ResourceDiscovery(APIStruct, frozen=True):
    resource: str = ""
    response_kind: _ResponseKind | None = None
    scope: str = ""
    verbs: tuple[str, ...] = ()
    subresources: tuple[_SubresourceDiscovery, ...] | None = None


class _VersionDiscovery(APIStruct, frozen=True):
    version: str = ""
    resources: tuple[_ResourceDiscovery, ...] | None = None
    freshness: str = ""


class _Name(APIStruct, frozen=True):
    name: str = ""


class _GroupDiscovery(APIStruct, frozen=True):
    metadata: _Name = _Name()
    versions: tuple[_VersionDiscovery, ...] | None = None


class _GroupDiscoveryList(APIStruct, frozen=True):
    items: tuple[_GroupDiscovery, ...] | None = None


class ServedResource(Struct, frozen=True):
    """A resource that the server serves.

    `is_preferred` says that this is the version of it that the server prefers.
    `subresources` has names such as ``scale``.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    verbs: frozenset[str]
    is_preferred: bool = True
    subresources: frozenset[str] = frozenset()

    @property
    def api_version(self) -> str:
        """``apps/v1``, or ``v1`` for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_resource(self) -> str:
        """``deployments.apps``, or ``pods`` for the core group."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def metadata_resource(self) -> Resource[PartialObject]:
        """Return the resource in the form that reads only metadata."""
        return Resource(
            self.group,
            self.version,
            self.plural,
            self.kind,
            PartialObject,
            namespaced=self.namespaced,
            metadata_only=True,
        )


class Discovery(Struct, frozen=True):
    """All resources that the server serves and that could be discovered.

    `failures` has the error message for each group version whose resources could
    not be read.
    """

    resources: tuple[ServedResource, ...]
    failures: Mapping[str, str] = field(default_factory=dict)

    def preferred(self, *verbs: str) -> list[ServedResource]:
        """Return the preferred version of every resource that has these verbs."""
        return [
            each
            for each in self.resources
            if each.is_preferred and each.verbs.issuperset(verbs)
        ]

    def problem(self) -> str:
        """Return which group versions failed, in client-go's words; empty for none."""
        if not self.failures:
            return ""
        each = ", ".join(
            f"{name}: {why}" for name, why in sorted(self.failures.items())
        )
        return f"unable to retrieve the complete list of server APIs: {each}"


async def discover(client: Client) -> Discovery:
    """Return all resources that the server serves.

    Raises APIError, TransportError or ProtocolError if the list of groups cannot
    be read.
    """
    core = await client.raw("GET", "/api", accept=_AGGREGATED)
    groups = await client.raw("GET", "/apis", accept=_AGGREGATED)
    if all(_is_aggregated(answer) for answer in (core, groups)):
        return _from_aggregated(
            [
                *(_decoded(core, _GroupDiscoveryList).items or ()),
                *(_decoded(groups, _GroupDiscoveryList).items or ()),
            ]
        )
    if any(_is_aggregated(answer) for answer in (core, groups)):
        # Perhaps two API servers of different versions answered. Use the format
        # that both of them support.
        core = await client.raw("GET", "/api")
        groups = await client.raw("GET", "/apis")
    versions = _decoded(core, _APIVersions).versions
    listed = _decoded(groups, _APIGroupList).groups or ()
    wanted = [("", version) for version in versions]
    for group in listed:
        names = [each.version for each in group.versions]
        best = group.preferred_version.version
        names.sort(key=lambda name, best=best: name != best)  # type: ignore[misc]
        wanted += [(group.name, name) for name in names]
    return await _one_by_one(client, wanted)


def _is_aggregated(answer: Response) -> bool:
    return "APIGroupDiscoveryList" in answer.headers.get("content-type", "")


def _from_aggregated(groups: list[_GroupDiscovery]) -> Discovery:
    found: list[ServedResource] = []
    failures: dict[str, str] = {}
    seen: set[tuple[str, str]] = set()
    for group in groups:
        name = group.metadata.name
        for version in group.versions or ():
            if version.freshness == "Stale":
                group_version = f"{name}/{version.version}" if name else version.version
                failures[group_version] = (
                    f"stale GroupVersion discovery: {group_version}"
                )
                continue
            for each in version.resources or ():
                kind = each.response_kind.kind if each.response_kind else ""
                served = ServedResource(
                    name,
                    version.version,
                    each.resource,
                    kind,
                    each.scope == "Namespaced",
                    frozenset(each.verbs),
                    (name, each.resource) not in seen,
                    frozenset(sub.subresource for sub in each.subresources or ()),
                )
                seen.add((name, each.resource))
                found.append(served)
    return Discovery(tuple(found), failures)


async def _one_by_one(client: Client, wanted: list[tuple[str, str]]) -> Discovery:
    found: list[ServedResource] = []
    failures: dict[str, str] = {}
    seen: set[tuple[str, str]] = set()
    for group, version in wanted:
        api_version = f"{group}/{version}" if group else version
        try:
            listed = await _resources(client, api_version)
        except (APIError, TransportError, ProtocolError) as error:
            failures[api_version] = str(error)
            continue
        if listed is None:
            failures[api_version] = "the server could not find the requested resource"
            continue
        for served in _listed(group, version, listed):
            name = (group, served.plural)
            found.append(replace(served, is_preferred=name not in seen))
            seen.add(name)
    return Discovery(tuple(found), failures)


def _listed(
    group: str, version: str, listed: tuple[_APIResource, ...]
) -> Iterator[ServedResource]:
    """Yield the resources in the list of a group version, with their subresources."""
    subresources: defaultdict[str, set[str]] = defaultdict(set)
    for each in listed:
        plural, _, subresource = each.name.partition("/")
        if subresource:
            subresources[plural].add(subresource)
    for each in listed:
        if "/" not in each.name:
            yield ServedResource(
                group,
                version,
                each.name,
                each.kind,
                each.namespaced,
                frozenset(each.verbs),
                subresources=frozenset(subresources[each.name]),
            )


async def served_resources(client: Client, api_version: str) -> frozenset[str] | None:
    """Return the plural names that `api_version` serves, including subresources.

    `None` means that the server does not serve the group version. Raises APIError,
    TransportError or ProtocolError when the list cannot be read.
    """
    listed = await _resources(client, api_version)
    return None if listed is None else frozenset(each.name for each in listed)


async def _resources(
    client: Client, api_version: str
) -> tuple[_APIResource, ...] | None:
    root = "/apis" if "/" in api_version else "/api"
    answer = await client.raw("GET", f"{root}/{api_version}")
    if answer.status == HTTPStatus.NOT_FOUND:
        return None
    return _decoded(answer, _APIResourceList, api_version).resources or ()


def _decoded(answer: Response, struct: type[StructT], what: str = "") -> StructT:
    if answer.status != HTTPStatus.OK:
        raise error_from_response(
            answer.status, answer.body, None, answer.headers.get("location")
        )
    try:
        return msgspec.json.decode(answer.body, type=struct)
    except msgspec.DecodeError as error:
        subject = f"the discovery document of {what}" if what else "discovery"
        msg = f"{subject} cannot be read: {error}"
        raise ProtocolError(msg) from error
