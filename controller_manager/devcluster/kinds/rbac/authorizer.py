"""RBAC: authorizes requests by the stored roles and bindings.

Upstream: plugin/pkg/auth/authorizer/rbac, and DefaultRuleResolver of
pkg/registry/rbac/validation/rule.go.
"""

from collections.abc import Iterator, Sequence
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.server.security.authentication import User
from controller_manager.devcluster.server.security.authorization import (
    MASTERS,
    Attributes,
    Authorizer,
    Decision,
    Rules,
    aggregate,
)
from controller_manager.devcluster.server.storage import Storage

from .binding_index import GROUP, BindingIndex, applying_subject
from .rules import permits

_PLURALS: Final = {"Role": "roles", "ClusterRole": "clusterroles"}


class RoleNotFoundError(Exception):
    """A binding names a role that does not exist, or an unknown kind of role."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"{kind} {name}")
        self.kind = kind
        self.name = name

    def message(self, *, plural: bool) -> str:
        """Return the message of listers, or with `plural` that of the storage."""
        if self.kind not in _PLURALS:
            return f'unsupported role reference kind: "{self.kind}"'
        resource = _PLURALS[self.kind] if plural else self.kind.lower()
        return f'{resource}.{GROUP} "{self.name}" not found'


class RBACAuthorizer(Authorizer):
    """Decides by roles; members of system:masters may do everything."""

    enforced: ClassVar = True

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._cluster = BindingIndex(storage, "clusterrolebindings")
        self._namespaced = BindingIndex(storage, "rolebindings")

    def decide(self, user: User, attributes: Attributes) -> Decision:
        """Decide whether `user` may send a request; the reason names the binding."""
        if MASTERS in user.groups:
            return Decision(is_allowed=True)
        errors: list[str] = []
        for binding in self._bindings(user, attributes.namespace):
            namespace = binding["metadata"].get("namespace", "")
            try:
                rules = self.rules_of(binding.get("roleRef") or {}, namespace)
            except RoleNotFoundError as error:
                errors.append(error.message(plural=False))
                continue
            if any(permits(rule, attributes) for rule in rules):
                return Decision(is_allowed=True, reason=_reason(binding, user))
        reason = f"RBAC: {aggregate(errors)}" if errors else ""
        return Decision(is_allowed=False, reason=reason)

    def rules_for(self, user: User, namespace: str) -> Rules:
        """Return the rules of all roles that `user` is bound to."""
        rules: list[JSON] = []
        errors: list[str] = []
        for binding in self._bindings(user, namespace):
            place = binding["metadata"].get("namespace", "")
            try:
                rules += self.rules_of(binding.get("roleRef") or {}, place)
            except RoleNotFoundError as error:
                errors.append(error.message(plural=False))
        return Rules(rules, errors)

    def rules_of(self, reference: JSON, namespace: str) -> Sequence[JSON]:
        """Return the rules of the role that a binding in `namespace` refers to.

        Raises RoleNotFoundError.
        """
        kind, name = reference.get("kind", ""), reference.get("name", "")
        place = namespace if kind == "Role" else ""
        if kind not in _PLURALS:
            raise RoleNotFoundError(kind, name)
        roles = self._storage.collection(f"{_PLURALS[kind]}.{GROUP}")
        stored = roles.get((place, name))
        if stored is None:
            raise RoleNotFoundError(kind, name)
        return stored.obj.get("rules") or ()

    def _bindings(self, user: User, namespace: str) -> Iterator[JSON]:
        yield from self._cluster.of(user, "")
        if namespace:
            yield from self._namespaced.of(user, namespace)


def _reason(binding: JSON, user: User) -> str:
    """Return the reason: the binding, its role, and the subject."""
    metadata, reference = binding["metadata"], binding["roleRef"]
    namespace = metadata.get("namespace", "")
    subject = applying_subject(binding, user, namespace)
    kind = "RoleBinding" if namespace else "ClusterRoleBinding"
    place = f"/{namespace}" if namespace else ""
    bound = subject.get("name", "")
    if subject.get("kind") == "ServiceAccount":
        bound = f"{bound}/{subject.get('namespace') or namespace}"
    return (
        f'RBAC: allowed by {kind} "{metadata["name"]}{place}" of '
        f'{reference["kind"]} "{reference["name"]}" to '
        f'{subject.get("kind", "")} "{bound}"'
    )
