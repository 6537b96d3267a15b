"""Users cannot grant rights that they do not have (registry/rbac/*/policybased).

Upstream wraps the storage of roles and bindings. Here it is the first check of a write;
it is not a plugin, so it cannot be disabled.
"""

from collections.abc import Sequence
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import Refusal, forbidden, not_found
from controller_manager.devcluster.server.rest.admission import Operation, Plugin, Write
from controller_manager.devcluster.server.security.authentication import User
from controller_manager.devcluster.server.security.authorization import (
    EVERYTHING,
    MASTERS,
    Attributes,
    Authorizer,
)

from .authorizer import RBACAuthorizer, RoleNotFoundError
from .binding_index import GROUP
from .rules import compact, description, missing, quoted

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
