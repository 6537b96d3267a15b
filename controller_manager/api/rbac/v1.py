"""rbac.authorization.k8s.io/v1: cluster roles."""

from msgspec import field

from controller_manager.api.meta import APIStruct, CompleteObject, Resource
from controller_manager.api.selectors import LabelSelector


class PolicyRule(APIStruct, frozen=True):
    """Verbs that are allowed on resources, or on paths that are no resources."""

    verbs: tuple[str, ...] | None = None
    api_groups: tuple[str, ...] | None = None
    resources: tuple[str, ...] | None = None
    resource_names: tuple[str, ...] | None = None
    non_resource_urls: tuple[str, ...] | None = field(
        default=None, name="nonResourceURLs"
    )


class AggregationRule(APIStruct, frozen=True):
    """Selectors of the roles whose rules a role aggregates."""

    cluster_role_selectors: tuple[LabelSelector, ...] | None = None


class ClusterRole(CompleteObject, frozen=True):
    """A cluster role."""

    rules: tuple[PolicyRule, ...] | None = None
    aggregation_rule: AggregationRule | None = None


CLUSTER_ROLES: Resource[ClusterRole] = Resource(
    "rbac.authorization.k8s.io",
    "v1",
    "clusterroles",
    "ClusterRole",
    ClusterRole,
    namespaced=False,
)
