"""Roles, bindings, and the refusal of grants that a user does not have.

Upstream: pkg/registry/rbac, pkg/apis/rbac/validation.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver import security
from controller_manager.devcluster.apiserver.admission import Operation, Plugin, Write
from controller_manager.devcluster.apiserver.kind import Kind
from controller_manager.devcluster.apiserver.objects import Objects
from controller_manager.devcluster.apiserver.strategy import Deletion
from controller_manager.devcluster.scheme import statuses
from controller_manager.devcluster.scheme.names import validate_path_segment
from controller_manager.devcluster.validation.text import table

from .kinds import kind_of
from .rbac_authorizer import (
    GROUP,
    RBACAuthorizer,
    RoleNotFoundError,
    compact,
    description,
    missing,
    quoted,
)

# Roles

_RULE: Final = table("""
    when has nonResourceURLs:
      nonResourceURLs: refused if has apiGroups resources resourceNames
        "rules cannot apply to both regular resources and non-resource URLs"
    else:
      apiGroups: required "resource rules must supply at least one api group"
      resources: required "resource rules must supply at least one resource"
    """)
ROLES: Final = kind_of(
    "rbac.authorization.k8s.io/v1/roles",
    check_name=validate_path_segment,
    rules="""
        rules[]:
          verbs: required "verbs must contain at least one value"
          nonResourceURLs: refused
            "namespaced rules cannot apply to non-resource URLs"
          include RULE
        """,
)
CLUSTER_ROLES: Final = kind_of(
    "rbac.authorization.k8s.io/v1/clusterroles",
    check_name=validate_path_segment,
    rules="""
        rules[]:
          verbs: required "verbs must contain at least one value"
          include RULE
        aggregationRule:
          clusterRoleSelectors: required
            "at least one clusterRoleSelector required if aggregationRule is"
            "non-nil"
          clusterRoleSelectors[]: selector
        """,
)

# Bindings


def _no_group(group: str, field: str) -> Iterator[statuses.Cause]:
    """Refuse the group of an account, which is in the core group."""
    yield statuses.not_supported(field, statuses.shown(group), [""])


def _same_role(binding: JSON, path: str, old: JSON) -> Iterator[statuses.Cause]:
    """Check that an update does not bind another role."""
    if old.get("roleRef") != binding.get("roleRef"):
        reference = binding.get("roleRef") or {}
        # Upstream shows the type of its storage, whose fields have Go's names.
        value = {
            "APIGroup": reference.get("apiGroup", ""),
            "Kind": reference.get("kind", ""),
            "Name": reference.get("name", ""),
        }
        yield statuses.invalid(
            f"{path}roleRef", statuses.shown(value), "cannot change roleRef"
        )


def _default_groups(obj: JSON) -> None:
    reference = obj.setdefault("roleRef", {})
    reference["apiGroup"] = reference.get("apiGroup") or GROUP
    for subject in obj.get("subjects") or ():
        if subject.get("kind") in ("User", "Group"):
            subject["apiGroup"] = subject.get("apiGroup") or GROUP


def _subjects_of(obj: JSON, kind: str) -> str:
    """Return the names of one kind of subjects; accounts with their namespace."""
    return ", ".join(
        f"{each['namespace']}/{each['name']}" if each.get("namespace") else each["name"]
        for each in obj.get("subjects", ())
        if each.get("kind") == kind
    )


_users: Final = partial(_subjects_of, kind="User")
_groups: Final = partial(_subjects_of, kind="Group")
_accounts: Final = partial(_subjects_of, kind="ServiceAccount")


_REFERENCE: Final = table("""
    name: required path-segment
    """)
_SUBJECT: Final = table("""
    name: required
    kind: enum ServiceAccount User Group default empty
    when kind is ServiceAccount:
      name: subdomain
      apiGroup: no_group
    when kind is User Group:
      apiGroup: enum rbac.authorization.k8s.io default empty
    """)
ROLE_BINDINGS: Final = kind_of(
    "rbac.authorization.k8s.io/v1/rolebindings",
    apply_defaults=_default_groups,
    check_name=validate_path_segment,
    rules="""
        roleRef always:
          apiGroup: enum rbac.authorization.k8s.io default empty
          kind: enum Role ClusterRole default empty
          include REFERENCE
        subjects[]:
          include SUBJECT
        """,
    update_rules="hook same_role",
    printer="""
        Name
        Role: {.roleRef.kind}/{.roleRef.name}
        Age
        Users wide: users
        Groups wide: groups
        ServiceAccounts wide: accounts
        """,
)
CLUSTER_ROLE_BINDINGS: Final = kind_of(
    "rbac.authorization.k8s.io/v1/clusterrolebindings",
    ROLE_BINDINGS.strategy,
    rules="""
        roleRef always:
          apiGroup: enum rbac.authorization.k8s.io default empty
          kind: enum ClusterRole default empty
          include REFERENCE
        subjects[]:
          include SUBJECT
          namespace: required if kind is ServiceAccount
        """,
)

# Users cannot grant rights that they do not have (registry/rbac/*/policybased).

_COLLECTED: Final = ("ownerReferences", "finalizers")
"""Fields of the metadata that the garbage collector changes."""

_AGGREGATED: Final = "must have cluster-admin privileges to use the aggregationRule"


class EscalationCheck(Plugin):
    """Refuses roles and bindings that grant more than their writer's rights.

    The verb ``escalate`` on roles, and ``bind`` on the role of a binding, allow it.
    """

    validates: ClassVar = frozenset((Operation.CREATE, Operation.UPDATE))

    def __init__(self, authorizer: security.Authorizer) -> None:
        """Take the authorizer; without RBAC nothing is refused."""
        self._authorizer = authorizer

    def validate(self, write: Write) -> None:
        """Check a role or a binding; raises Refusal 403, and 404 for no such role."""
        kind, obj, authorizer = write.kind, write.obj, self._authorizer
        if kind.group != GROUP or obj is None or security.MASTERS in write.user.groups:
            return
        if not isinstance(authorizer, RBACAuthorizer):
            return
        old = write.old
        if old is not None and _without_collected(old) == _without_collected(obj):
            return
        check = _Check(write, authorizer)
        if kind.plural in frozenset(("roles", "clusterroles")):
            check.role(obj)
        elif kind.plural in frozenset(("rolebindings", "clusterrolebindings")):
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
            if missing(held.rules, security.EVERYTHING):
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
            raise statuses.not_found(GROUP, plural, error.name) from None
        self._check_rules(rules)

    def _allows(self, verb: str, plural: str, name: str) -> bool:
        write = self._write
        attributes = security.Attributes(
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


def _attempt(user: security.User) -> str:
    return (
        f'user "{user.name}" (groups={quoted(user.groups)}) is attempting to grant '
        "RBAC permissions not currently held:"
    )


def _refused(write: Write, why: str) -> statuses.Refusal:
    return statuses.forbidden(GROUP, write.kind.plural, write.shown_name, why)


def _aggregates(role: JSON) -> bool:
    rule = role.get("aggregationRule") or {}
    return bool(rule.get("clusterRoleSelectors"))


def _without_collected(obj: JSON) -> JSON:
    aside = (*_COLLECTED, "managedFields", "resourceVersion")
    metadata = {k: v for k, v in obj["metadata"].items() if k not in aside}
    rest = {k: v for k, v in obj.items() if k not in ("kind", "apiVersion")}
    return {**rest, "metadata": metadata}


# Roles and bindings that must exist (pkg/registry/rbac/reconciliation)

AUTO_UPDATE: Final = "rbac.authorization.kubernetes.io/autoupdate"
"""An annotation; the server does not reconcile objects with the value "false"."""

_AGGREGATION: Final = "aggregationRule"
_SUBJECT_FIELDS: Final = ("kind", "apiGroup", "name", "namespace")


def reconcile(
    objects: Objects,
    find: Callable[[str, str], Kind | None],
    wanted: Iterable[JSON],
) -> None:
    """Create absent roles and bindings, and complete the stored ones.

    Rules, subjects, labels and annotations that users have added stay. An object with
    the annotation `AUTO_UPDATE` "false" is not changed. `find` returns the kind of an
    apiVersion and a name.
    """
    for obj in wanted:
        kind = find(obj["apiVersion"], obj["kind"])
        assert kind is not None  # noqa: S101 - a kind that this server has
        _reconcile_one(objects, kind, obj)


def _reconcile_one(objects: Objects, kind: Kind, wanted: JSON) -> None:
    metadata = wanted["metadata"]
    namespace, name = metadata.get("namespace", ""), metadata["name"]
    if not objects.has(kind, namespace, name):
        objects.create(kind, namespace, wanted)
        return
    stored = objects.find(kind, namespace, name).obj
    annotations = stored["metadata"].get("annotations") or {}
    if annotations.get(AUTO_UPDATE) == "false":
        return
    if "roleRef" in wanted and wanted["roleRef"] != stored["roleRef"]:
        # The role of a binding is immutable: delete the binding, and create it again.
        objects.delete(kind, namespace, name, Deletion())
        objects.create(kind, namespace, wanted)
        return
    changed = {
        **stored,
        "metadata": _merged(stored["metadata"], metadata),
        **(
            _subjects(stored, wanted) if "roleRef" in wanted else _rules(stored, wanted)
        ),
    }
    if changed != stored:
        objects.update(kind, namespace, name, changed)


def _merged(stored: JSON, wanted: JSON) -> JSON:
    """Return metadata with the labels and annotations that it lacks."""
    added = {
        field: {**wanted[field], **(stored.get(field) or {})}
        for field in ("labels", "annotations")
        if wanted.get(field)
    }
    return {**stored, **added}


def _rules(stored: JSON, wanted: JSON) -> JSON:
    """Return the rules of a role, or its aggregation rule."""
    if rule := wanted.get(_AGGREGATION):
        held = (stored.get(_AGGREGATION) or {}).get("clusterRoleSelectors") or []
        lacking = [each for each in rule["clusterRoleSelectors"] if each not in held]
        return {_AGGREGATION: {"clusterRoleSelectors": [*held, *lacking]}}
    if stored.get(_AGGREGATION):
        return {}
    held_rules = stored.get("rules") or []
    lacking_rules = missing(held_rules, wanted["rules"])
    return {"rules": [*held_rules, *lacking_rules]} if lacking_rules else {}


def _subjects(stored: JSON, wanted: JSON) -> JSON:
    """Return the subjects of a binding with those that it lacks."""
    held = stored.get("subjects") or []
    known = [_identity(each) for each in held]
    lacking = [each for each in wanted["subjects"] if _identity(each) not in known]
    return {"subjects": [*held, *lacking]} if lacking else {}


def _identity(subject: JSON) -> tuple[str, ...]:
    return tuple(subject.get(each, "") for each in _SUBJECT_FIELDS)
