"""Cluster roles for people and for all users (clusterRoles of policy.go)."""

from collections.abc import Iterator
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.server.security.authentication import (
    AUTHENTICATED,
    UNAUTHENTICATED,
)
from controller_manager.devcluster.server.security.authorization import MASTERS

from .policy import (
    READ,
    READ_WRITE,
    WRITE,
    aggregated_role,
    binding,
    cluster_role,
    group,
    paths,
    rule,
)

_AGGREGATE: Final = "rbac.authorization.k8s.io/aggregate-to-"
_TO_ADMIN: Final = f"{_AGGREGATE}admin"
_TO_EDIT: Final = f"{_AGGREGATE}edit"
_TO_VIEW: Final = f"{_AGGREGATE}view"

_PUBLIC: Final = "/healthz /livez /readyz /version /version/"
_DISCOVERY: Final = (
    "/api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz /version "
    "/version/"
)


def roles_of_users() -> Iterator[JSON]:
    """Yield the cluster roles that users are bound to."""
    yield cluster_role("cluster-admin", [rule("*", "*", "*"), paths("*", "*")])
    yield aggregated_role("admin", _TO_ADMIN)
    yield aggregated_role("edit", _TO_EDIT, {_TO_ADMIN: "true"})
    yield aggregated_role("view", _TO_VIEW, {_TO_EDIT: "true"})
    for name, label, rules in (
        ("admin", _TO_ADMIN, _ADMIN),
        ("edit", _TO_EDIT, _EDIT),
        ("view", _TO_VIEW, _VIEW),
    ):
        yield cluster_role(f"system:aggregate-to-{name}", rules, {label: "true"})
    yield cluster_role("system:basic-user", _BASIC_USER)
    yield cluster_role("system:discovery", [paths("get", _DISCOVERY)])
    yield cluster_role("system:public-info-viewer", [paths("get", _PUBLIC)])
    yield cluster_role("system:monitoring", _MONITORING)


def bindings_of_users() -> Iterator[JSON]:
    """Yield the bindings of groups that every cluster has."""
    everybody = [group(AUTHENTICATED), group(UNAUTHENTICATED)]
    yield binding("cluster-admin", [group(MASTERS)])
    yield binding("system:basic-user", everybody[:1])
    yield binding("system:discovery", everybody[:1])
    yield binding("system:monitoring", [group("system:monitoring")])
    yield binding("system:public-info-viewer", everybody)


_ADMIN: Final = (
    rule("create", "authorization.k8s.io", "localsubjectaccessreviews"),
    rule(READ_WRITE, "rbac.authorization.k8s.io", "rolebindings roles"),
)
_PODS: Final = "pods/attach pods/exec pods/portforward pods/proxy"
_EDIT: Final = (
    rule(READ, "core", f"{_PODS} secrets services/proxy"),
    rule("impersonate", "core", "serviceaccounts"),
    rule(WRITE, "core", f"pods {_PODS}"),
    rule("create", "core", "pods/eviction"),
    rule(
        WRITE,
        "core",
        "configmaps events persistentvolumeclaims replicationcontrollers "
        "replicationcontrollers/scale secrets serviceaccounts services services/proxy",
    ),
    rule("create", "core", "serviceaccounts/token"),
    rule(
        WRITE,
        "apps",
        "daemonsets deployments deployments/rollback deployments/scale replicasets "
        "replicasets/scale statefulsets statefulsets/scale",
    ),
    rule(WRITE, "autoscaling", "horizontalpodautoscalers"),
    rule(WRITE, "batch", "cronjobs jobs"),
    rule(
        WRITE,
        "extensions",
        "daemonsets deployments deployments/rollback deployments/scale ingresses "
        "networkpolicies replicasets replicasets/scale replicationcontrollers/scale",
    ),
    rule(WRITE, "policy", "poddisruptionbudgets"),
    rule(WRITE, "networking.k8s.io", "ingresses networkpolicies"),
    rule(READ_WRITE, "coordination.k8s.io", "leases"),
    rule(WRITE, "resource.k8s.io", "resourceclaims resourceclaimtemplates"),
)
_VIEW: Final = (
    rule(
        READ,
        "core",
        "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status "
        "pods replicationcontrollers replicationcontrollers/scale serviceaccounts "
        "services services/status",
    ),
    rule(
        READ,
        "core",
        "bindings events limitranges namespaces/status pods/log pods/status "
        "replicationcontrollers/status resourcequotas resourcequotas/status",
    ),
    rule(READ, "core", "namespaces"),
    rule(READ, "discovery.k8s.io", "endpointslices"),
    rule(
        READ,
        "apps",
        "controllerrevisions daemonsets daemonsets/status deployments "
        "deployments/scale deployments/status replicasets replicasets/scale "
        "replicasets/status statefulsets statefulsets/scale statefulsets/status",
    ),
    rule(
        READ,
        "autoscaling",
        "horizontalpodautoscalers horizontalpodautoscalers/status",
    ),
    rule(READ, "batch", "cronjobs cronjobs/status jobs jobs/status"),
    rule(
        READ,
        "extensions",
        "daemonsets daemonsets/status deployments deployments/scale "
        "deployments/status ingresses ingresses/status networkpolicies replicasets "
        "replicasets/scale replicasets/status replicationcontrollers/scale",
    ),
    rule(READ, "policy", "poddisruptionbudgets poddisruptionbudgets/status"),
    rule(READ, "networking.k8s.io", "ingresses ingresses/status networkpolicies"),
    rule(
        READ,
        "resource.k8s.io",
        "resourceclaims resourceclaims/status resourceclaimtemplates",
    ),
)
_BASIC_USER: Final = (
    rule(
        "create",
        "authorization.k8s.io",
        "selfsubjectaccessreviews selfsubjectrulesreviews",
    ),
    rule("create", "authentication.k8s.io", "selfsubjectreviews"),
)
_MONITORING: Final = (
    paths(
        "get",
        "/healthz /healthz/* /livez /livez/* /metrics /metrics/slis /readyz /readyz/*",
    ),
    paths("get", "/flagz"),
    paths("get", "/statusz"),
)
