"""Discovery: the resources that an API server serves.

Two requests read all of them (aggregated discovery, v2). If the server does not
support that, each group version is read by a request of its own. Upstream:
client-go's discovery and restmapper.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from controller_manager.api.meta import PartialObject, Resource
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.errors import RequestError
from controller_manager.client.rest.transport import Response

from . import documents

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
        return documents.joined(self.group, self.version)

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
        return not self.failures.keys().isdisjoint(
            (api_version, documents.all_versions(group))
        )

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
                *documents.aggregated_versions(core, failures),
                *documents.aggregated_versions(groups, failures),
            ],
            failures,
        )
    if any(_is_aggregated(answer) for answer in (core, groups)):
        # Perhaps two API servers of different versions answered. Use the format
        # that both of them support.
        core = await client.raw("GET", "/api")
        groups = await client.raw("GET", "/apis")
    wanted = list(documents.listed_versions(core, groups, failures))
    return await _one_by_one(client, wanted, failures)


def _is_aggregated(answer: Response) -> bool:
    return "APIGroupDiscoveryList" in answer.headers.get("content-type", "")


def _from_aggregated(
    versions: list[tuple[str, documents.VersionDiscovery]], failures: dict[str, str]
) -> Discovery:
    found: list[ServedResource] = []
    seen: set[tuple[str, str]] = set()
    for name, version in versions:
        if version.freshness == "Stale":
            group_version = documents.joined(name, version.version)
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
        api_version = documents.joined(group, version)
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
    group: str, version: str, listed: tuple[documents.APIResource, ...]
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
) -> tuple[documents.APIResource, ...] | None:
    root = "/apis" if "/" in api_version else "/api"
    answer = await client.raw("GET", f"{root}/{api_version}")
    if answer.status == HTTPStatus.NOT_FOUND:
        return None
    return documents.listed_resources(answer, api_version)
