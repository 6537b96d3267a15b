"""The rules for roles and bindings (pkg/apis/rbac/validation/validation.go)."""

from collections.abc import Iterator
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    invalid,
    not_supported,
    shown,
)
from controller_manager.devcluster.validation.text import table

GROUP: Final = "rbac.authorization.k8s.io"

# Roles

_RULE: Final = table(
    """
    when has nonResourceURLs:
      nonResourceURLs: refused if has apiGroups resources resourceNames
        "rules cannot apply to both regular resources and non-resource URLs"
    else:
      apiGroups: required "resource rules must supply at least one api group"
      resources: required "resource rules must supply at least one resource"
    """
)
ROLE: Final = table(
    """
    rules[]:
      verbs: required "verbs must contain at least one value"
      nonResourceURLs: refused
        "namespaced rules cannot apply to non-resource URLs"
      include RULE
    """,
    RULE=_RULE,
)
CLUSTER_ROLE: Final = table(
    """
    rules[]:
      verbs: required "verbs must contain at least one value"
      include RULE
    aggregationRule:
      clusterRoleSelectors: required
        "at least one clusterRoleSelector required if aggregationRule is non-nil"
      clusterRoleSelectors[]: selector
    """,
    RULE=_RULE,
)


# Bindings


def _no_group(group: str, field: str) -> Iterator[Cause]:
    """Refuse the group of an account, which is in the core group."""
    yield not_supported(field, shown(group), [""])


def _same_role(binding: JSON, path: str, old: JSON) -> Iterator[Cause]:
    """Check that an update does not bind another role."""
    if old.get("roleRef") != binding.get("roleRef"):
        reference = binding.get("roleRef") or {}
        # Upstream shows the type of its storage, whose fields have Go's names.
        value = {
            "APIGroup": reference.get("apiGroup", ""),
            "Kind": reference.get("kind", ""),
            "Name": reference.get("name", ""),
        }
        yield invalid(f"{path}roleRef", shown(value), "cannot change roleRef")


_REFERENCE: Final = table(
    """
    name: required
    name: path-segment
    """
)
_SUBJECT: Final = table(
    """
    name: required
    kind: enum ServiceAccount User Group default empty
    when kind is ServiceAccount:
      name: subdomain
      apiGroup: no_group
    when kind is User Group:
      apiGroup: enum rbac.authorization.k8s.io default empty
    """,
    _no_group,
)
ROLE_BINDING: Final = table(
    """
    roleRef always:
      apiGroup: enum rbac.authorization.k8s.io default empty
      kind: enum Role ClusterRole default empty
      include REFERENCE
    subjects[]:
      include SUBJECT
    """,
    REFERENCE=_REFERENCE,
    SUBJECT=_SUBJECT,
)
CLUSTER_ROLE_BINDING: Final = table(
    """
    roleRef always:
      apiGroup: enum rbac.authorization.k8s.io default empty
      kind: enum ClusterRole default empty
      include REFERENCE
    subjects[]:
      include SUBJECT
      namespace: required if kind is ServiceAccount
    """,
    REFERENCE=_REFERENCE,
    SUBJECT=_SUBJECT,
)
BINDING_UPDATE: Final = table("hook same_role", _same_role)
