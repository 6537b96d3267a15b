"""The documents of discovery, each group and version read by itself.

Group versions of aggregated APIs are in them as their own servers wrote them, so one
that cannot be read must not hide the others.
"""

from collections.abc import Iterator
from functools import cache
from http import HTTPStatus
from typing import TypeVar

import msgspec
from msgspec import Raw

from controller_manager.api.json_objects import Decoder
from controller_manager.api.meta import APIStruct
from controller_manager.client.rest.errors import ProtocolError, error_from_response
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
