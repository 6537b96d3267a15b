"""core/v1: resource quotas."""

from controller_manager.api.meta import APIStruct, CompleteObject
from controller_manager.api.resource import Resource


class ScopedResourceSelectorRequirement(APIStruct, frozen=True):
    """A scope, and the values of it that an object must have."""

    scope_name: str = ""
    operator: str = ""
    values: tuple[str, ...] | None = None


class ScopeSelector(APIStruct, frozen=True):
    """Requirements, all of which an object must meet to be counted."""

    match_expressions: tuple[ScopedResourceSelectorRequirement, ...] | None = None


class ResourceQuotaSpec(APIStruct, frozen=True):
    """All of a quota's spec; amounts are quantities."""

    hard: dict[str, str] | None = None
    scopes: tuple[str, ...] | None = None
    scope_selector: ScopeSelector | None = None


class ResourceQuotaStatus(APIStruct, frozen=True):
    """All of a quota's status; amounts are quantities."""

    hard: dict[str, str] | None = None
    used: dict[str, str] | None = None


class ResourceQuota(CompleteObject, frozen=True):
    """A quota: what the objects of its namespace may use together."""

    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    status: ResourceQuotaStatus = ResourceQuotaStatus()


RESOURCE_QUOTAS: Resource[ResourceQuota] = Resource(
    "", "v1", "resourcequotas", "ResourceQuota", ResourceQuota
)
