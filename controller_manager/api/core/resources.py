"""core/v1: compute resources, as the controllers read them, and resource quotas.

Amounts are quantities (`api.quantity`), in the text that the API server prints.
"""

from typing import Final

from controller_manager.api.meta import APIStruct, CompleteObject, Resource

CPU: Final = "cpu"
MEMORY: Final = "memory"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
HUGE_PAGES_PREFIX: Final = "hugepages-"
"""The beginning of the names of huge page resources: ``hugepages-2Mi``."""


class ResourceRequirements(APIStruct, frozen=True):
    """The requests and limits of a container, or of a pod as a whole."""

    requests: dict[str, str] | None = None
    limits: dict[str, str] | None = None


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
