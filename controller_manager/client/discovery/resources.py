"""Discovery: the resources that an API server serves.

Two requests read all of them (aggregated discovery, v2). If the server does not
support that, each group version is read by a request of its own. Group versions of
aggregated APIs are in the documents as their own servers wrote them, so one that cannot
be read must not hide the others. Upstream: client-go's discovery and restmapper.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from http import HTTPStatus
from typing import Final, TypeVar

import msgspec
from msgspec import Raw, Struct, field
from msgspec.structs import replace

from controller_manager.api.json_objects import Decoder
from controller_manager.api.meta import APIStruct, PartialObject, Resource
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.errors import (
    ProtocolError,
    RequestError,
    error_from_response,
)
from controller_manager.client.rest.transport import Response

StructT = TypeVar("StructT", bound=msgspec.Struct)


class APIResource(APIStruct, frozen=True):
    """A resource, or a subresource with a name such as ``deployments/scale``."""

    name: str = ""
    namespaced: bool = False
    kind: str = ""
    verbs: tuple[str, ...] | None = None
    singular_name: str = ""
    short_names: tuple[str, ...] | None = None


class _APIResourceList(APIStruct, frozen=True):
    resources: tuple[APIResource, ...] | None = None


class _GroupVersion(APIStruct, frozen=True):
    version: str = ""


class _APIGroup(APIStruct, frozen=True):
    versions: tuple[_GroupVersion, ...] | None = None
    preferred_version: _GroupVersion | None = None


class _Name(APIStruct, frozen=True):
    name: str = ""


class _APIGroupList(APIStruct, frozen=True):
    groups: tuple[Raw, ...] | None = None


class _APIVersions(APIStruct, frozen=True):
    versions: tuple[str, ...] | None = None


class ResponseKind(APIStruct, frozen=True):
    """The kind of the objects that a resource has."""

    kind: str = ""


class SubresourceDiscovery(APIStruct, frozen=True):
    """A subresource, such as ``scale``."""

    subresource: str = ""


class ResourceDiscovery(APIStruct, frozen=True):
    """A resource with its subresources."""

    resource: str = ""
    response_kind: ResponseKind | None = None
    scope: str = ""
    verbs: tuple[str, ...] | None = None
    subresources: tuple[SubresourceDiscovery, ...] | None = None
    singular_resource: str = ""
    short_names: tuple[str, ...] | None = None


class VersionDiscovery(APIStruct, frozen=True):
    """A version of a group, with its resources."""

    version: str = ""
    resources: tuple[ResourceDiscovery, ...] | None = None
    freshness: str = ""


class _Named(APIStruct, frozen=True):
    metadata: _Name = _Name()


class _GroupDiscovery(APIStruct, frozen=True):
    versions: tuple[Raw, ...] | None = None


class _GroupDiscoveryList(APIStruct, frozen=True):
    items: tuple[Raw, ...] | None = None


def joined(group: str, version: str) -> str:
    """Return ``apps/v1``, or ``v1`` for the core group."""
    return f"{group}/{version}" if group else version


def all_versions(group: str) -> str:
    """Return the name that stands for all versions of a group."""
    return joined(group, "*")


def aggregated_versions(
    answer: Response, failures: dict[str, str]
) -> Iterator[tuple[str, VersionDiscovery]]:
    """Yield group and document of each version in an aggregated document.

    Adds those that cannot be read to `failures`. Raises APIError, and ProtocolError
    if the names of the groups cannot be read.
    """
    for raw in _document(answer, _GroupDiscoveryList).items or ():
        name = _read(raw, _Named, "discovery").metadata.name
        group = _part(raw, _GroupDiscovery, all_versions(name), failures)
        for part in (group.versions or ()) if group else ():
            version = _part(part, _GroupVersion, all_versions(name), failures)
            if version is not None:
                key = joined(name, version.version)
                found = _part(part, VersionDiscovery, key, failures)
                if found is not None:
                    yield name, found


def listed_versions(
    core: Response, groups: Response, failures: dict[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield group and version from the lists of groups, preferred versions first.

    Adds groups that cannot be read to `failures`. Raises as `aggregated_versions`.
    """
    for version in _document(core, _APIVersions).versions or ():
        yield "", version
    for raw in _document(groups, _APIGroupList).groups or ():
        name = _read(raw, _Name, "discovery").name
        group = _part(raw, _APIGroup, all_versions(name), failures)
        if group is not None:
            names = [each.version for each in group.versions or ()]
            best = group.preferred_version or _GroupVersion()
            yield from ((name, each) for each in names if each == best.version)
            yield from ((name, each) for each in names if each != best.version)


def listed_resources(answer: Response, api_version: str) -> tuple[APIResource, ...]:
    """Return the resources in the list of a group version.

    Raises APIError or ProtocolError.
    """
    return _document(answer, _APIResourceList, api_version).resources or ()


def _document(answer: Response, struct: type[StructT], of: str = "") -> StructT:
    if answer.status != HTTPStatus.OK:
        raise error_from_response(
            answer.status, answer.body, None, answer.headers.get("location")
        )
    return _read(
        answer.body, struct, f"the discovery document of {of}" if of else "discovery"
    )


def _part(
    raw: Raw, struct: type[StructT], name: str, failures: dict[str, str]
) -> StructT | None:
    try:
        return _read(raw, struct, "the discovery document")
    except ProtocolError as error:
        failures[name] = str(error)
        return None


def _read(document: bytes | Raw, struct: type[StructT], subject: str) -> StructT:
    if isinstance(document, Raw) and bytes(document) == b"null":
        return struct()  # an element of a list, which Go reads as the zero value
    decoder: Decoder[StructT] = _decoder(struct)
    try:
        return decoder.decode(document)
    except msgspec.DecodeError as error:
        msg = f"{subject} cannot be read: {error}"
        raise ProtocolError(msg) from error


@cache
def _decoder(struct: type[StructT]) -> Decoder[StructT]:
    return Decoder(struct)


_AGGREGATED: Final = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json"
)


class ServedResource(Struct, frozen=True):
    """A resource that the server serves.

    `is_preferred` says that this is the version of it that the server prefers.
    `subresources` has names such as ``scale``. `singular` and `short_names` are other
    words for the resource that a user may write.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    verbs: frozenset[str]
    is_preferred: bool = True
    subresources: frozenset[str] = frozenset()
    singular: str = ""
    short_names: tuple[str, ...] = ()

    @property
    def api_version(self) -> str:
        """``apps/v1``, or ``v1`` for the core group."""
        return joined(self.group, self.version)

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
    not be read. The version is ``*`` if those of the group are unknown.
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

    def is_unread(self, api_version: str) -> bool:
        """Tell whether the resources of a group version could not be read."""
        group = api_version.rpartition("/")[0]
        return not self.failures.keys().isdisjoint((api_version, all_versions(group)))

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

    A group or version that cannot be read is a failure of its own. Raises APIError,
    TransportError or ProtocolError if the list of groups, or the name of one of them,
    cannot be read.
    """
    core = await client.raw("GET", "/api", accept=_AGGREGATED)
    groups = await client.raw("GET", "/apis", accept=_AGGREGATED)
    failures: dict[str, str] = {}
    if all(_is_aggregated(answer) for answer in (core, groups)):
        return _from_aggregated(
            [
                *aggregated_versions(core, failures),
                *aggregated_versions(groups, failures),
            ],
            failures,
        )
    if any(_is_aggregated(answer) for answer in (core, groups)):
        # Perhaps two API servers of different versions answered. Use the format
        # that both of them support.
        core = await client.raw("GET", "/api")
        groups = await client.raw("GET", "/apis")
    wanted = list(listed_versions(core, groups, failures))
    return await _one_by_one(client, wanted, failures)


def _is_aggregated(answer: Response) -> bool:
    return "APIGroupDiscoveryList" in answer.headers.get("content-type", "")


def _from_aggregated(
    versions: list[tuple[str, VersionDiscovery]], failures: dict[str, str]
) -> Discovery:
    found: list[ServedResource] = []
    seen: set[tuple[str, str]] = set()
    for name, version in versions:
        if version.freshness == "Stale":
            group_version = joined(name, version.version)
            failures[group_version] = f"stale GroupVersion discovery: {group_version}"
            continue
        # A resource without a name cannot be requested.
        for each in (each for each in version.resources or () if each.resource):
            kind = each.response_kind.kind if each.response_kind else ""
            served = ServedResource(
                name,
                version.version,
                each.resource,
                kind,
                each.scope == "Namespaced",
                frozenset(each.verbs or ()),
                (name, each.resource) not in seen,
                frozenset(sub.subresource for sub in each.subresources or ()),
                each.singular_resource,
                each.short_names or (),
            )
            seen.add((name, each.resource))
            found.append(served)
    return Discovery(tuple(found), failures)


async def _one_by_one(
    client: Client, wanted: list[tuple[str, str]], failures: dict[str, str]
) -> Discovery:
    found: list[ServedResource] = []
    seen: set[tuple[str, str]] = set()
    for group, version in wanted:
        api_version = joined(group, version)
        try:
            listed = await _resources(client, api_version)
        except RequestError as error:
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
    group: str, version: str, listed: tuple[APIResource, ...]
) -> Iterator[ServedResource]:
    subresources: defaultdict[str, set[str]] = defaultdict(set)
    for each in listed:
        plural, _, subresource = each.name.partition("/")
        if subresource:
            subresources[plural].add(subresource)
    for each in listed:
        if each.name and "/" not in each.name:
            yield ServedResource(
                group,
                version,
                each.name,
                each.kind,
                each.namespaced,
                frozenset(each.verbs or ()),
                subresources=frozenset(subresources[each.name]),
                singular=each.singular_name,
                short_names=each.short_names or (),
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
) -> tuple[APIResource, ...] | None:
    root = "/apis" if "/" in api_version else "/api"
    answer = await client.raw("GET", f"{root}/{api_version}")
    if answer.status == HTTPStatus.NOT_FOUND:
        return None
    return listed_resources(answer, api_version)
