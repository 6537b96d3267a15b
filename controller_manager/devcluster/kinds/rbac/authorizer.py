"""RBAC: authorizes requests by the stored roles and bindings.

Upstream: plugin/pkg/auth/authorizer/rbac.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from controller_manager.devcluster.server.authentication import User
from controller_manager.devcluster.server.authorization import Attributes, Authorizer
from controller_manager.devcluster.server.storage import Storage

JSON = dict[str, Any]

_MASTERS: Final = "system:masters"
_GROUP: Final = "rbac.authorization.k8s.io"


class RBACAuthorizer(Authorizer):
    """Decides by roles; members of system:masters may do everything."""

    enforced = True

    def __init__(self, storage: Storage) -> None:
        """Take the storage with the roles."""
        self._storage = storage

    def allows(self, user: User, attributes: Attributes) -> bool:
        """Tell whether `user` may do it."""
        if _MASTERS in user.groups:
            return True
        return any(_permits(rule, attributes) for rule in self._rules(user, attributes))

    def _rules(self, user: User, attributes: Attributes) -> Iterator[JSON]:
        for binding in self._stored("clusterrolebindings"):
            if _binds(binding, user):
                yield from self._rules_of(binding, "")
        if not attributes.namespace:
            return
        for binding in self._stored("rolebindings"):
            namespace = binding["metadata"]["namespace"]
            if namespace == attributes.namespace and _binds(binding, user):
                yield from self._rules_of(binding, namespace)

    def _stored(self, plural: str) -> list[JSON]:
        collection = self._storage.collection(f"{plural}.{_GROUP}")
        return [stored.obj for stored in collection]

    def _rules_of(self, binding: JSON, namespace: str) -> Sequence[JSON]:
        reference = binding.get("roleRef") or {}
        kind = reference.get("kind", "")
        if kind == "ClusterRole":
            namespace = ""
        plural = f"{kind.lower()}s.{_GROUP}"
        role = self._storage.collection(plural).get(
            (namespace, reference.get("name", ""))
        )
        return role.obj.get("rules") or () if role is not None else ()


def _binds(binding: JSON, user: User) -> bool:
    for subject in binding.get("subjects") or ():
        name = subject.get("name", "")
        match subject.get("kind"):
            case "User":
                found = name == user.name
            case "Group":
                found = name in user.groups
            case _:
                account = f"{subject.get('namespace', '')}:{name}"
                found = user.name == f"system:serviceaccount:{account}"
        if found:
            return True
    return False


def _permits(rule: Mapping[str, Any], attributes: Attributes) -> bool:
    if not _among(attributes.verb, rule.get("verbs")):
        return False
    if attributes.path:
        return any(
            pattern in ("*", attributes.path)
            or (pattern.endswith("*") and attributes.path.startswith(pattern[:-1]))
            for pattern in rule.get("nonResourceURLs") or ()
        )
    names = rule.get("resourceNames")
    return (
        _among(attributes.group, rule.get("apiGroups"))
        and (
            _among(attributes.full_resource, rule.get("resources"))
            or f"*/{attributes.subresource}" in (rule.get("resources") or ())
        )
        and (not names or attributes.name in names)
    )


def _among(value: str, allowed: Sequence[str] | None) -> bool:
    return "*" in (allowed or ()) or value in (allowed or ())
