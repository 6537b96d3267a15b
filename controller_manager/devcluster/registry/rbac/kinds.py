"""Roles, bindings, and the refusal of grants that a user does not have.

Upstream: pkg/registry/rbac, pkg/apis/rbac/validation.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.admission import Operation, Plugin, Write
from controller_manager.devcluster.apiserver.security import (
    EVERYTHING,
    MASTERS,
    Attributes,
    Authorizer,
    User,
)
from controller_manager.devcluster.apiserver.strategy import (
    AGE,
    NAME,
    Cells,
    Column,
    Strategy,
    age,
)
from controller_manager.devcluster.registry.built_in import kind_of
from controller_manager.devcluster.registry.columns import name_of
from controller_manager.devcluster.scheme.names import validate_path_segment
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    Refusal,
    forbidden,
    invalid,
    not_found,
    not_supported,
    shown,
)
from controller_manager.devcluster.validation.text import table

from .authorizer import (
    GROUP,
    RBACAuthorizer,
    RoleNotFoundError,
    compact,
    description,
    missing,
    quoted,
)

# The rules for roles and bindings (pkg/apis/rbac/validation/validation.go).

RBAC: Final = "rbac.authorization.k8s.io"

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


# Users cannot grant rights that they do not have (registry/rbac/*/policybased).

_ROLES: Final = frozenset(("roles", "clusterroles"))
_BINDINGS: Final = frozenset(("rolebindings", "clusterrolebindings"))
_COLLECTED: Final = ("ownerReferences", "finalizers")
"""Fields of the metadata that the garbage collector changes."""

_AGGREGATED: Final = "must have cluster-admin privileges to use the aggregationRule"


class EscalationCheck(Plugin):
    """Refuses roles and bindings that grant more than their writer's rights.

    The verb ``escalate`` on roles, and ``bind`` on the role of a binding, allow it.
    """

    validates: ClassVar = frozenset((Operation.CREATE, Operation.UPDATE))

    def __init__(self, authorizer: Authorizer) -> None:
        """Take the authorizer; without RBAC nothing is refused."""
        self._authorizer = authorizer

    def validate(self, write: Write) -> None:
        """Check a role or a binding; raises Refusal 403, and 404 for no such role."""
        kind, obj, authorizer = write.kind, write.obj, self._authorizer
        if kind.group != GROUP or obj is None or MASTERS in write.user.groups:
            return
        if not isinstance(authorizer, RBACAuthorizer):
            return
        if write.old is not None and _only_collected(write.old, obj):
            return
        check = _Check(write, authorizer)
        if kind.plural in _ROLES:
            check.role(obj)
        elif kind.plural in _BINDINGS:
            check.binding(obj)


class _Check:
    """Compares the rights that a write grants with the rights of its user."""

    def __init__(self, write: Write, authorizer: RBACAuthorizer) -> None:
        self._write = write
        self._authorizer = authorizer

    def role(self, role: JSON) -> None:
        """Check a role."""
        write = self._write
        # A request to create names no object in its path.
        name = write.name if write.old is not None else ""
        if self._allows("escalate", write.kind.plural, name):
            return
        self._check_rules(role.get("rules") or ())
        if _aggregates(role) or _aggregates(write.old or {}):
            held = self._authorizer.rules_for(write.user, write.namespace)
            if missing(held.rules, EVERYTHING):
                raise _refused(write, _AGGREGATED)

    def binding(self, binding: JSON) -> None:
        """Check a binding."""
        reference = binding["roleRef"]
        plural = "roles" if reference["kind"] == "Role" else "clusterroles"
        if self._allows("bind", plural, reference["name"]):
            return
        try:
            rules = self._authorizer.rules_of(reference, self._write.namespace)
        except RoleNotFoundError as error:
            raise not_found(GROUP, plural, error.name) from None
        self._check_rules(rules)

    def _allows(self, verb: str, plural: str, name: str) -> bool:
        write = self._write
        attributes = Attributes(
            verb, group=GROUP, resource=plural, namespace=write.namespace, name=name
        )
        return self._authorizer.allows(write.user, attributes)

    def _check_rules(self, wanted: Sequence[JSON]) -> None:
        write = self._write
        held = self._authorizer.rules_for(write.user, write.namespace)
        if lacking := missing(held.rules, wanted):
            listed = "\n".join(sorted({description(each) for each in compact(lacking)}))
            errors = f"; resolution errors: [{held.error}]" if held.errors else ""
            raise _refused(write, f"{_attempt(write.user)}\n{listed}{errors}")


def _attempt(user: User) -> str:
    return (
        f'user "{user.name}" (groups={quoted(user.groups)}) is attempting to grant '
        "RBAC permissions not currently held:"
    )


def _refused(write: Write, why: str) -> Refusal:
    return forbidden(GROUP, write.kind.plural, write.shown_name, why)


def _aggregates(role: JSON) -> bool:
    rule = role.get("aggregationRule") or {}
    return bool(rule.get("clusterRoleSelectors"))


def _only_collected(old: JSON, new: JSON) -> bool:
    """Tell whether a write changes only what the garbage collector changes."""
    return _without_collected(old) == _without_collected(new)


def _without_collected(obj: JSON) -> JSON:
    aside = (*_COLLECTED, "managedFields", "resourceVersion")
    metadata = {k: v for k, v in obj["metadata"].items() if k not in aside}
    rest = {k: v for k, v in obj.items() if k not in ("kind", "apiVersion")}
    return {**rest, "metadata": metadata}


# Bindings of roles: columns, messages and validation that both kinds share.

_SUBJECTS: Final = ("User", "Group", "ServiceAccount")


class BindingStrategy(Strategy):
    """The name may be any segment of a path."""

    update_rules: ClassVar = BINDING_UPDATE
    columns: ClassVar = (
        NAME,
        Column("Role"),
        AGE,
        Column("Users", priority=1),
        Column("Groups", priority=1),
        Column("ServiceAccounts", priority=1),
    )

    def validate_name(self, name: str) -> list[Cause]:
        """Check the name of a new binding."""
        return validate_path_segment(name, "metadata.name")

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in the API groups of the role and of the subjects."""
        reference = obj.setdefault("roleRef", {})
        if not reference.get("apiGroup"):
            reference["apiGroup"] = RBAC
        for subject in obj.get("subjects") or ():
            if subject.get("kind") in ("User", "Group") and not subject.get("apiGroup"):
                subject["apiGroup"] = RBAC

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        role = obj.get("roleRef", {})
        return [
            name_of(obj),
            f"{role.get('kind', '')}/{role.get('name', '')}",
            age(obj, now),
            *(_subjects(obj, kind) for kind in _SUBJECTS),
        ]


def _subjects(obj: JSON, kind: str) -> str:
    """Return the names of one kind of subjects; accounts with their namespace."""
    return ", ".join(
        f"{each['namespace']}/{each['name']}" if each.get("namespace") else each["name"]
        for each in obj.get("subjects", ())
        if each.get("kind") == kind
    )


# Role: permissions in a namespace.


class RoleStrategy(Strategy):
    """The name may be any segment of a path."""

    rules: ClassVar = ROLE

    def validate_name(self, name: str) -> list[Cause]:
        """Check the name of a new role."""
        return validate_path_segment(name, "metadata.name")


ROLES: Final = kind_of("rbac.authorization.k8s.io/v1", "roles", RoleStrategy())


# ClusterRole: permissions in all namespaces.


class ClusterRoleStrategy(RoleStrategy):
    """Rules may be for paths, and may be aggregated from other cluster roles."""

    rules: ClassVar = CLUSTER_ROLE


CLUSTER_ROLES: Final = kind_of(
    "rbac.authorization.k8s.io/v1", "clusterroles", ClusterRoleStrategy()
)


# RoleBinding: grants a role in one namespace.


class RoleBindingStrategy(BindingStrategy):
    """It grants roles of the namespace, and cluster roles in it."""

    rules: ClassVar = ROLE_BINDING


ROLE_BINDINGS: Final = kind_of(
    "rbac.authorization.k8s.io/v1", "rolebindings", RoleBindingStrategy()
)


# ClusterRoleBinding: grants a role in all namespaces.


class ClusterRoleBindingStrategy(BindingStrategy):
    """It grants cluster roles only."""

    rules: ClassVar = CLUSTER_ROLE_BINDING


CLUSTER_ROLE_BINDINGS: Final = kind_of(
    "rbac.authorization.k8s.io/v1", "clusterrolebindings", ClusterRoleBindingStrategy()
)
